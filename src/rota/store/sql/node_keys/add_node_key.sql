insert into node_keys (pool, name, public_key, joined_with, joined_from)
select pools.id, $2, $3, $4, $5::text::inet from pools where pools.name = $1
on conflict do nothing returning id
