select servers.name, servers.url, servers.version, servers.seen_at,
    case when servers.left_at is not null then 'left'
        when servers.seen_at < now() - interval '1 minute' then 'lost'
        when servers.seen_at < now() - make_interval(secs => $1) then 'silent'
        else 'up' end as state,
    array(select pools.name from leases join pools on pools.id = leases.pool
        where leases.holder = servers.holder and leases.expires_at > now() order by 1) as leads
from servers where servers.seen_at > now() - make_interval(secs => $2) order by servers.id
