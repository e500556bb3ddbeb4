select reruns.task, reruns.rerun from graph_tasks join reruns on reruns.task = graph_tasks.task
where graph_tasks.graph = $1 and graph_tasks.tenant = $2 order by reruns.task
