-- Takes one of $1, whose rate has $2 seconds for each and may be $3 seconds ahead (GCRA).
with taken as (
    insert into sign_in_attempts as kept (key, free_at) values ($1, clock_timestamp() + make_interval(secs => $2))
    on conflict (key) do update set free_at = greatest(kept.free_at, clock_timestamp()) + make_interval(secs => $2)
    where kept.free_at <= clock_timestamp() + make_interval(secs => $3)
    returning key
)
select exists (select from taken) as taken, coalesce(
    (select extract(epoch from free_at - clock_timestamp()) - $3 from sign_in_attempts where key = $1), 0
)::float8 as wait_seconds
