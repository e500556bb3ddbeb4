update deliveries set state = $3, status = $4, trouble = $5, next_at = now() + make_interval(secs => $6)
where id = $1 and tries = $2
