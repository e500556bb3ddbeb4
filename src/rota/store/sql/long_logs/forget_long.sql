delete from long_logs where task = $1 and attempt = $2
and noted_at <= now() - make_interval(hours => $3)
