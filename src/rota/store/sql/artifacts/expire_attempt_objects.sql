with gone as (
    delete from attempt_objects where id in (
        select stored.id from attempt_objects stored
        where stored.purpose = 'checkpoint' and not exists (select from queue where queue.id = stored.task)
            or stored.created_at < now() - $1::interval
                and not exists (select from queue where queue.id = stored.task)
        limit $2 for update skip locked
    )
    returning object_key
), loosened as (
    insert into loose_objects (object_key, remove_at) select object_key, now() from gone where object_key is not null
)
select object_key from gone
