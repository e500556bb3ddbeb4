-- Those that have not ended, newest first. $2: how long one may be idle.
select sessions.id, tenants.name as tenant, sessions.via, sessions.created_at, sessions.seen_at, sessions.ends_at,
    host(sessions.address) as address, sessions.agent
from sessions join tenants on tenants.id = sessions.tenant
where sessions.principal = $1 and sessions.ended_at is null and sessions.ends_at > now()
    and sessions.seen_at > now() - $2::interval
order by sessions.id desc
