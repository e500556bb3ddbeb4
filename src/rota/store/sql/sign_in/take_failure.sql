-- Counts a failure of $1 before it is known to be one; a success takes it back. No row in `taken`: it still has to wait.
-- $2: failures without a wait; $3: the waits after them; $4: after this time a failure is forgotten. The clock is read after
-- the row is locked: attempts at the same moment come one after the other.
with taken as (
    insert into sign_in_attempts as kept (key, failures, free_at) values ($1, 1, clock_timestamp())
    on conflict (key) do update set (failures, free_at) = (
        select count, clock_timestamp() + make_interval(secs => case when count < $2::integer then 0
            else ($3::integer[])[least(count - $2::integer + 1, cardinality($3::integer[]))] end)
        from (select case when kept.free_at < clock_timestamp() - make_interval(secs => $4) then 1 else kept.failures + 1 end) as _ (count)
    )
    where kept.free_at <= clock_timestamp()
    returning failures
)
select exists (select from taken) as taken, coalesce(
    (select extract(epoch from free_at - clock_timestamp()) from sign_in_attempts where key = $1), 0
)::float8 as wait_seconds
