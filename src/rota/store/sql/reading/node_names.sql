select id, name from nodes where id = any($1)
