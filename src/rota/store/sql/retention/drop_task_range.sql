select drop_task_range($1, $2, $3)
