insert into worker_keys (public_id, secret_hash, pool, uses, expires_at, created_by)
select $1, $2, pools.id, $4, now() + $5::interval, $6 from pools where pools.name = $3 returning id
