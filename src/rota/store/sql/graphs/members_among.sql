-- Those of some tasks that are in a graph, or in one within it.
select graph_tasks.task from graph_tasks join graphs on graphs.id = graph_tasks.graph
where graph_tasks.task = any($3::bigint[]) and graph_tasks.tenant = $2 and $1 in (graphs.id, graphs.within)
