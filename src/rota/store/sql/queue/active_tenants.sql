-- Tenants with live tasks in a pool, and those of $2. Skips through the index, so the cost is by tenant, not by task.
with recursive walk as (
    (select tenant from queue where pool = $1 order by tenant limit 1)
    union all
    select (select queue.tenant from queue where queue.pool = $1 and queue.tenant > walk.tenant
        order by queue.tenant limit 1)
    from walk where walk.tenant is not null
)
select tenants.id, plans.weight, plans.running_cpu_milli, plans.running_memory_bytes, plans.running_tasks,
    plans.urgent_percent, tenants.paused, plans.longest_cap_seconds
from (select tenant from walk union select unnest($2::integer[])) known (tenant)
join tenants on tenants.id = known.tenant join plans on plans.name = tenants.plan
