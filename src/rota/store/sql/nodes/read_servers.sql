select servers.name, servers.url, servers.version, servers.seen_at,
    array(select pools.name from leases join pools on pools.id = leases.pool
        where leases.holder = servers.holder and leases.expires_at > now() order by 1) as leads
from servers where seen_at > now() - make_interval(secs => $1) order by servers.id
