delete from log_chunks where task = $1 and attempt = $2 and stream = $3 and seq >= $4 and seq < $5
