insert into graph_tasks (graph, task, tenant, name, place, item, parent)
select graph_tasks.graph, pair.new, graph_tasks.tenant, graph_tasks.name, graph_tasks.place, graph_tasks.item, graph_tasks.parent
from unnest($1::bigint[], $2::bigint[]) as pair (old, new)
join graph_tasks on graph_tasks.task = pair.old
