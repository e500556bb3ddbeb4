select leases.pool, pools.name, leases.epoch, leases.holder, servers.url
from leases join pools on pools.id = leases.pool join servers on servers.holder = leases.holder
where leases.expires_at > now()
