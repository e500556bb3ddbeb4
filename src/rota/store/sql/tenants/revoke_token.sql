update tokens set revoked_at = coalesce(revoked_at, now()) where id = $1 returning id
