-- Wins the pool if its lease is free. The epoch is the database's clock in microseconds, or the last one plus one: it rises
-- strictly even if a fail-over lost the newest commits.
insert into leases (pool, epoch, holder, expires_at)
values ($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint, $2, clock_timestamp() + $3::interval)
on conflict (pool) do update
set epoch = greatest(leases.epoch + 1, excluded.epoch, $4::bigint + 1),
    holder = excluded.holder,
    expires_at = excluded.expires_at
where leases.expires_at < clock_timestamp() or leases.holder = excluded.holder
returning epoch
