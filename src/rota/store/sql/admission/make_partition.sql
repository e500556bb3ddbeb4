select make_partition($1, $2)
