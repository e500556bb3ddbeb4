select id from tasks where id = any($1) and tenant = $2
