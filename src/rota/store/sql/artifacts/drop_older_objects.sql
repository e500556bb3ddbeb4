-- Those known to be damaged ($4) are of no use and go first: else one would take the place of a good one.
with older as (
    delete from attempt_objects where task = $1 and purpose = $2 and (id = any($4::bigint[]) or id in (
        select id from attempt_objects
        where task = $1 and purpose = $2 and id <> all($4::bigint[])
        order by created_at desc, id desc offset $3
    ))
    returning object_key
)
insert into loose_objects (object_key, remove_at) select object_key, now() from older where object_key is not null
returning object_key
