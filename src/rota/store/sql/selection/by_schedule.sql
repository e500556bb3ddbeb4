select tasks.id from tasks where tasks.tenant = $1 and tasks.id < $2 and tasks.schedule = $5::bigint
    order by tasks.id desc limit $3
