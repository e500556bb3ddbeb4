update sessions set seen_at = now() where id = $1 and seen_at < now() - interval '1 minute'
