-- Among the next segments in the order of ids: deletes those whose task is gone, or ended more than $3 days ago (null: only
-- those whose task is gone). Their objects become loose.
with seen as materialized (
    select log_segments.id, log_segments.task from log_segments where log_segments.id > $1 order by log_segments.id limit $2
),
gone as (
    delete from log_segments where log_segments.id in (
        select seen.id from seen
        where not exists (select from queue where queue.id = seen.task)
            and (not exists (select from tasks where tasks.id = seen.task)
                or exists (select from attempts where attempts.task = seen.task and attempts.state > 0
                    and attempts.ended_at < now() - make_interval(days => $3)))
    )
    returning log_segments.object_key
),
loosened as (
    insert into loose_objects (object_key, remove_at) select gone.object_key, now() from gone
)
select (select count(*) from seen) as seen, (select max(id) from seen) as last, (select count(*) from gone) as gone
