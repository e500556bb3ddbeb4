-- Ends the fenced connections of a holder whose lease has run out, so that a paused one can't hold a lock in our way.
select pg_terminate_backend(activity.pid)
from leases join pg_stat_activity activity on activity.application_name = 'rota fenced ' || leases.holder
where leases.pool = $1 and leases.expires_at < clock_timestamp() and leases.holder <> $2
