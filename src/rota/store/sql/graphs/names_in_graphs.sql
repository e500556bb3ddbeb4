select task, name from graph_tasks where task = any($1) and tenant = $2 and item is null
