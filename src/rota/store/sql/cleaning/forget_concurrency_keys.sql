delete from concurrency_keys where (tenant, key) in (
select tenant, key from concurrency_keys keys
where (cooled_until is null or cooled_until < now())
    and not exists (select from key_places where (tenant, key) = (keys.tenant, keys.key))
    and not exists (select from key_waits where (tenant, key) = (keys.tenant, keys.key))
limit $1 for update skip locked)
