select id from tasks where tenant = $1 and id < $2 and id > $3 and name = $5
order by id desc limit $4
