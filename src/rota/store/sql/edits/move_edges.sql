update edges set child_pool = $2 where child = any($1)
