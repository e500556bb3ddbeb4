update servers set seen_at = now(), left_at = null where holder = $1
