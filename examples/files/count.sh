#!/bin/sh
# Runs on a node: counts the words of its input files, and writes a table.
mkdir -p report
for file in texts/*; do
    printf '%s\t%s\n' "$(wc -w < "$file")" "${file#texts/}"
done > report/words.tsv
