select id, state from queue where id = any($1) and tenant = $2
