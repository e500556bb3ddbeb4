update schedules set runs = runs + $2, last_tasks = $3, last_graph = $4 where id = $1
