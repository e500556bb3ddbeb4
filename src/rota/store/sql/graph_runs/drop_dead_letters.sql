delete from dead_letters where task = any($1)
