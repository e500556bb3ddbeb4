delete from log_chunks where task = $1 and attempt = $2 and seq <= $3 returning seq
