delete from idempotency where (tenant, key_hash) in (
select tenant, key_hash from idempotency where created_at < now() - make_interval(hours => $1)
order by created_at limit $2 for update skip locked)
