update servers set seen_at = '-infinity' where holder = $1
