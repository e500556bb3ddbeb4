insert into log_segments (task, attempt, first_seq, last_seq, size_bytes, stored_bytes, last_at,
object_key) values ($1, $2, $3, $4, $5, $6, $7, $8)
