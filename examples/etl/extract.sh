#!/bin/sh
# The text of this file becomes the task's script: nothing needs to be on the node.
set -e
echo "extracting $DAY"
