#!/bin/sh
# Archives $FOLDER. The file name has the scheduled time, not the time of the run: a late backup keeps its date.
set -eu
night=$(printf %s "$ROTA_SCHEDULED_FOR" | tr -d :)
tar -czf "backup-$night.tar.gz" -C "$FOLDER" .
