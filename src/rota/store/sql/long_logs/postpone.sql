update long_logs set look_at = now() + make_interval(secs => $3) where task = $1 and attempt = $2
