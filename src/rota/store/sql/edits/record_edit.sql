insert into task_edits (task, tenant, user_name, changes, tolerance) values ($1, $2, $3, $4, $5)
