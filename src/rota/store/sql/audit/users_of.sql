select id, user_name from tasks where id = any($1)
