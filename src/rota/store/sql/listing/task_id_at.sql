select task_id_at($1, $2)
