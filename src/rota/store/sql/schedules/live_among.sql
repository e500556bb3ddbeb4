select id from queue where id = any($1)
