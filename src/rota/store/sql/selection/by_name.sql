select tasks.id from tasks where tasks.tenant = $1 and tasks.id < $2 and tasks.name = $5::text order by tasks.id desc limit $3
