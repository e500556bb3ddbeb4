select id, kind, name from tasks where id = any($1)
