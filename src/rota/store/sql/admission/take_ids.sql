select take_task_ids($1)
