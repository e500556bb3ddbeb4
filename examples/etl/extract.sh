#!/bin/sh
# The text of this file becomes the script of the task; the node needs no copy.
set -e
echo "extracting $DAY"
