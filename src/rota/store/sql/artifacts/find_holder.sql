-- The tenant, user and storage limit behind an attempt, if it runs right now on the agent that asks (state 4: running).
select queue.tenant, tasks.user_name, plans.storage_bytes
from queue
join tasks on tasks.id = queue.id and tasks.id = $1
join tenants on tenants.id = queue.tenant
join plans on plans.name = tenants.plan
where queue.id = $1 and queue.attempt = $2 and queue.boot = $3 and queue.state = {RUNNING}
