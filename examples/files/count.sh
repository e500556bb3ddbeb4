#!/bin/sh
# Runs on a node: counts the words of the files it was given, and leaves a table behind.
mkdir -p report
for file in texts/*; do
    printf '%s\t%s\n' "$(wc -w < "$file")" "${file#texts/}"
done > report/words.tsv
