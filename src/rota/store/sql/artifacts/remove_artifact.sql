-- The row goes first and its object becomes loose: the sweeper deletes it, if the caller does not.
with gone as (delete from artifacts where tenant = $1 and sha256 = $2 returning object_key)
insert into loose_objects (object_key, remove_at) select object_key, now() from gone returning object_key
