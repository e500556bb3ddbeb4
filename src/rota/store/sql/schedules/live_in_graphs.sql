select graph_tasks.graph, graph_tasks.task from graph_tasks
cross join lateral (select from queue where queue.id = graph_tasks.task offset 0) live
where graph_tasks.graph = any($1) order by 1, 2
