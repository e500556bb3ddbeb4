select task from dead_letters where tenant = $1 and task < $2 and ($3::bigint[] is null or task = any($3))
order by task desc offset $4 limit 1
