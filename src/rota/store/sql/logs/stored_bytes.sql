select coalesce(sum(octet_length(data)), 0)::bigint from log_chunks where task = $1 and attempt = $2 and seq < $3
