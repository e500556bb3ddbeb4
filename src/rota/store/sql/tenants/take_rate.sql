insert into rate_limits (tenant, arrival) values ($1, clock_timestamp() + $2 * $3::interval)
on conflict (tenant) do update
    set arrival = greatest(rate_limits.arrival, clock_timestamp()) + $2 * $3::interval
where greatest(rate_limits.arrival, clock_timestamp()) + $2 * $3::interval
    <= clock_timestamp() + $4::interval
returning tenant
