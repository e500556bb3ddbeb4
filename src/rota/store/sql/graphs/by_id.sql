id = any($3::bigint[])
