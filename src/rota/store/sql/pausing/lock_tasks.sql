select from queue where id = any($1) and tenant = $2 order by id for update
