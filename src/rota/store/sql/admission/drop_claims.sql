delete from idempotency using unnest($1::integer[], $2::bytea[]) as mine (tenant, key_hash)
where idempotency.tenant = mine.tenant and idempotency.key_hash = mine.key_hash
