update sessions set tenant = $2 where id = $1
