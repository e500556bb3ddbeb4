delete from loose_objects where object_key = any($1)
