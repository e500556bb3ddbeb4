select reruns.task, reruns.rerun from graph_tasks join reruns on reruns.task = graph_tasks.task
where graph_tasks.graph = any(array({graphs/whole})) and graph_tasks.tenant = $2 order by reruns.task
