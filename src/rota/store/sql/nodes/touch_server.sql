update servers set seen_at = now() where holder = $1
