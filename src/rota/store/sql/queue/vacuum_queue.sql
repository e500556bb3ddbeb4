vacuum (analyze, truncate off, skip_locked) queue, row_counts
