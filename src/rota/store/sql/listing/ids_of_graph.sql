-- Each graph of the whole by its own index: one condition on all of them would walk every task of the tenant.
select member.task
from ({graphs/whole}) as whole (graph)
cross join lateral (
    select graph_tasks.task from graph_tasks
    where graph_tasks.graph = whole.graph and graph_tasks.tenant = $2 and graph_tasks.task < $3 and graph_tasks.task > $4
    order by graph_tasks.task desc
    limit $5
) member
order by member.task desc
limit $5
