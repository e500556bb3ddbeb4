-- Ends the fenced connections of a holder whose lease has expired, so that a paused leader can't keep a lock.
select pg_terminate_backend(activity.pid)
from leases join pg_stat_activity activity on activity.application_name = 'rota fenced ' || leases.holder
where leases.pool = $1 and leases.expires_at < clock_timestamp() and leases.holder <> $2
