insert into nodes (pool, name, boot, capacity, labels, capabilities, version)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (pool, name) do update
set boot = excluded.boot, capacity = excluded.capacity, labels = excluded.labels,
    capabilities = excluded.capabilities, version = excluded.version, seen_at = now(), registered_at = now(),
    closed = null, left_at = null,
    state = case when nodes.state = 'draining' then 'draining' else 'up' end
returning id, state
