tasks.id = any($5::bigint[])
