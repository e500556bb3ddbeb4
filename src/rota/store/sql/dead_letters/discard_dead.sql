delete from dead_letters where tenant = $1 and task = any($2) returning task
