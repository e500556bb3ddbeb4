-- Ended tasks by filter that were not run again, as in of_live. $7 has no meaning here.
with walked as materialized (
    {walk}
),
found as materialized (
    select ended.task as id, ended.state
    from walked
    cross join lateral (
        select attempts.task, attempts.state, attempts.node from attempts
        where attempts.task = walked.id and attempts.state > 0 and attempts.tenant = $1
        offset 0
    ) ended
    cross join lateral (
        select tasks.name, tasks.tags, tasks.schedule, tasks.user_name, tasks.created_at from tasks where tasks.id = walked.id
        offset 0
    ) task
    where ended.state = any($6::smallint[]) and $7::boolean is not null
        and not exists (select from reruns where reruns.task = walked.id)
        and ($8::integer[] is null or ended.node = any($8))
        and {matches}
    order by ended.task desc
    limit $4
)
select (select count(*) from walked) as walked, (select min(id) from walked) as last,
    array(select id from found order by id desc) as ids, array(select state from found order by id desc) as states
