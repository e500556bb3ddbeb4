select task from attempts where tenant = $1 and state = $3 and state > 0 and task < $2 and task > $4
order by task desc offset $5 limit 1
