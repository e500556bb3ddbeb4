-- The graphs that some tasks began because they may submit others.
select graph_tasks.task, graphs.id as graph from graph_tasks join graphs on graphs.id = graph_tasks.graph
where graph_tasks.task = any($1::bigint[]) and graph_tasks.tenant = $2 and graph_tasks.parent is null and graphs.from_task
