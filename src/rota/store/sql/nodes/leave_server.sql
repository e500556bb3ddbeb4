update servers set left_at = now() where holder = $1
