with counted as (
    select queue.state, queue.shape from pools join queue on queue.pool = pools.id and queue.tenant = $1
    limit $2)
select count(*) filter (where state <> {RUNNING}) as waiting, count(*) filter (where state = {RUNNING}) as running,
    coalesce(sum(shapes.cpu_milli) filter (where state = {RUNNING}), 0)::bigint as cpu_milli,
    coalesce(sum(shapes.memory_bytes) filter (where state = {RUNNING}), 0)::bigint as memory_bytes
from counted join shapes on shapes.id = counted.shape
