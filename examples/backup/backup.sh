#!/bin/sh
# Packs $FOLDER. The archive is named by the night it is for, not by when it runs: a late one is still that night's.
set -eu
night=$(printf %s "$ROTA_SCHEDULED_FOR" | tr -d :)
tar -czf "backup-$night.tar.gz" -C "$FOLDER" .
