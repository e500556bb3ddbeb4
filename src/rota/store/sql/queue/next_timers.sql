-- Seconds until the next timer of each tenant runs out.
select wanted.tenant, extract(epoch from (
    select min(queue.wake_at) from queue
    where queue.pool = $1 and queue.tenant = wanted.tenant and queue.wake_at > now()
) - now())::float8 as seconds
from unnest($2::integer[]) as wanted (tenant)
