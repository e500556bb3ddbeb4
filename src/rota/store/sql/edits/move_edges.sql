update edges set child_pool = $2 where child = $1
