-- Keys are claimed in order; a concurrent claim of the same key is waited for.
insert into idempotency (tenant, key_hash, body_hash, task)
select * from unnest($1::integer[], $2::bytea[], $3::bytea[], $4::bigint[])
on conflict do nothing
returning tenant, key_hash
