delete from edges where child = any($1)
