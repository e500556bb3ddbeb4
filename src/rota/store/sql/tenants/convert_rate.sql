-- After a change of plan: the tenant's row in the units of the rate $2. No row comes back if it has them already.
update rate_limits
set per_task = $2, arrival = clock_timestamp() +
{rate_ahead}
where tenant = $1 and (per_task is distinct from $2::interval or arrival > clock_timestamp() + $3::interval)
returning tenant
