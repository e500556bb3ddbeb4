-- The graph that a task began because it may submit others; also that of a later run of the task.
select graphs.id from graph_tasks join graphs on graphs.id = graph_tasks.graph
where graph_tasks.task = $1 and graph_tasks.tenant = $2 and graph_tasks.parent is null and graphs.from_task
