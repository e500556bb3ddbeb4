select task as id from attempts
where tenant = $1 and task < $2 and task > $3 and state = $5 and state > 0
order by task desc limit $4
