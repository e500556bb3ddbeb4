-- The row goes first; from here on its object is loose, and the sweeper's if nobody deletes it before.
with gone as (delete from artifacts where tenant = $1 and sha256 = $2 returning object_key)
insert into loose_objects (object_key, remove_at) select object_key, now() from gone returning object_key
