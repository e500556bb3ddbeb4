select idempotency.tenant, idempotency.key_hash, idempotency.body_hash, idempotency.task, idempotency.batch
from unnest($1::integer[], $2::bytea[]) as asked (tenant, key_hash)
join idempotency using (tenant, key_hash)
