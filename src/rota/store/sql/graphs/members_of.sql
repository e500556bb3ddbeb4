select task from graph_tasks where graph = any(array({graphs/whole})) and tenant = $2 order by task
