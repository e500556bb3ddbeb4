-- Damaged objects ($4) go first, so that none counts among the $3 that stay.
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
