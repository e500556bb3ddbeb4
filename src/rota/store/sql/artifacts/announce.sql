insert into loose_objects (object_key, remove_at) values ($1, now() + $2)
