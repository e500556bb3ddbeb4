-- Adds tasks that a running member submitted to its graph, at the end of the order. Starts from the member's own row, so a
-- task in no graph, or of another tenant, adds nothing.
insert into graph_tasks (graph, task, tenant, name, place, parent)
select own.graph, child.task, own.tenant, child.name,
    (select coalesce(max(graph_tasks.place), 0) from graph_tasks where graph_tasks.graph = own.graph) + child.number, $1
from graph_tasks own
cross join unnest($3::bigint[], $4::text[]) with ordinality as child (task, name, number)
where own.task = $1 and own.tenant = $2
returning graph_tasks.task
