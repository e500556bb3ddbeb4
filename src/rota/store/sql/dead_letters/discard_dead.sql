delete from dead_letters where tenant = $1 and ($2::bigint[] is null or task = any($2)) returning task
