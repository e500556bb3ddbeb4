update servers set seen_at = '-infinity'
where seen_at < now() - interval '1 hour' and seen_at > '-infinity'
