select task from graph_tasks where graph = $1 and tenant = $2 and task < $3 and task > $4
order by task desc limit $5
