insert into rate_limits (tenant, arrival, per_task) values ($1, clock_timestamp() + $2 * $3::interval, $3)
on conflict (tenant) do update
    set arrival = greatest(rate_limits.arrival, clock_timestamp()) + $2 * $3::interval
where greatest(rate_limits.arrival, clock_timestamp()) + $2 * $3::interval
    <= clock_timestamp() + $4::interval
    and rate_limits.per_task = $3::interval
returning tenant
