select id from queue where id = $1 and tenant = $2 for update
