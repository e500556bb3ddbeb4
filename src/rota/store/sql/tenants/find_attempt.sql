-- The owner of a running attempt whose task may submit, and what bounds the tasks that it submits. Nothing once the attempt
-- has ended or is to be stopped, nor long after its cap: an hour is for files at its end, and for a freeze.
select tenants.id as tenant_id, tenants.name as tenant, tasks.user_name, {plan_columns}, tenants.trusted,
    coalesce(graphs.within, graphs.id) as graph, left(tasks.spec::text, 4096) as spec_head,
    tasks.spec ->> 'isolation' as isolation
from queue
join tasks on tasks.id = queue.id
join tenants on tenants.id = queue.tenant
join plans on plans.name = tenants.plan
join graph_tasks on graph_tasks.task = queue.id
join graphs on graphs.id = graph_tasks.graph
where queue.id = $1 and tasks.id = $1 and tasks.spec ->> 'may_submit' = 'true' and queue.attempt = $2 and queue.state = {RUNNING} and not queue.cancel_requested
    and now() < queue.started_at + queue.cap_ms * interval '1 millisecond' + interval '1 hour'
