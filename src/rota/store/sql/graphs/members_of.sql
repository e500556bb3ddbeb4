select task from graph_tasks where graph = $1 and tenant = $2 order by task
