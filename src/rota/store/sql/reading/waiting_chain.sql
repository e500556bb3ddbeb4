-- Live tasks and, through live edges, the live tasks that they wait for, each with its own live parents. The walk stops after
-- so many tasks, so that a huge graph costs no more than a large one: a limit ends a recursion that nothing sorts.
with recursive up (task) as (
    select unnest($1::bigint[])
    union
    select edges.parent from up join edges on edges.child = up.task where edges.parent_state is null
),
chain as materialized (
    select up.task from up limit $3
)
select {queue/ready_columns}, queue.wake_at <= now() as due, queue.pool, shapes.cpu_milli, shapes.memory_bytes,
    shapes.disk_bytes, shapes.gpus, shapes.ports, shapes.custom, shapes.require, shapes.iops, shapes.gpu_milli,
    shapes.bandwidth_kbit,
    array(
        select edges.parent from edges where edges.child = queue.id and edges.parent_state is null order by edges.parent
    ) as parents
from chain
join queue on queue.id = chain.task
join shapes on shapes.id = queue.shape
where queue.tenant = $2
