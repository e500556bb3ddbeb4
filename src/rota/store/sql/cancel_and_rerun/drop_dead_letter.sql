delete from dead_letters where task = $1
