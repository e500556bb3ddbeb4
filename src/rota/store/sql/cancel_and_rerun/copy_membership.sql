insert into graph_tasks (graph, task, tenant, name, place, item, parent)
select graph, $2, tenant, name, place, item, parent from graph_tasks where task = $1
