select graph_tasks.task as id from graph_tasks
    where graph_tasks.graph = $5::bigint and graph_tasks.tenant = $1 and graph_tasks.task < $2
    order by graph_tasks.task desc limit $3
