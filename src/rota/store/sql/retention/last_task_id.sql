select last_value from task_ids
