update once set result = $4, done_at = now(), claimed_until = null
where tenant = $1 and key = $2 and claim = $3 and done_at is null returning key
