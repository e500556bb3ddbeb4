delete from loose_objects where object_key = $1 returning 1
