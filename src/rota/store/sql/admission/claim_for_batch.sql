update idempotency set batch = $3
where tenant = $1 and key_hash = $2
