select task as id from task_tags
where tenant = $1 and task < $2 and task > $3 and name = $5 and value = $6
order by task desc limit $4
