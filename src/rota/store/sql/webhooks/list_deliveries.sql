select id, type, message, state, tries, status, trouble, created_at, tried_at, next_at from deliveries
where webhook = $1 and id < $2 order by id desc limit $3
