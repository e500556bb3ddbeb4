select id from graphs where tenant = $1 and id < $2 and id > $5 and {chosen}
order by id desc offset $4 limit 1
