select graph_tasks.task from graph_tasks
cross join lateral (select from queue where queue.id = graph_tasks.task offset 0) live
where graph_tasks.graph = any(array({graphs/whole})) and graph_tasks.tenant = $2 order by graph_tasks.task
