select dead_letters.task as id from dead_letters
    where dead_letters.tenant = $1 and dead_letters.task < $2 and $5::text is null
    order by dead_letters.task desc limit $3
