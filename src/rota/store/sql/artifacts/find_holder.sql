-- The tenant, user and storage limit of an attempt that runs on the agent that asks; $4: its identity.
select queue.tenant, tasks.user_name, plans.storage_bytes
from queue
join tasks on tasks.id = queue.id and tasks.id = $1
join tenants on tenants.id = queue.tenant
join plans on plans.name = tenants.plan
cross join (select $4::integer as identity) sender
where queue.id = $1 and queue.attempt = $2 and queue.boot = $3 and queue.state = {RUNNING}
    and {node_keys/speaks_for}
