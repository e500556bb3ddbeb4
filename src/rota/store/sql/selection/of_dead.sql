-- Dead letters by filter, as in of_live; $8 and $9 are the time of death.
with walked as materialized (
    {walk}
),
found as materialized (
    select dead.task as id
    from walked
    cross join lateral (
        select dead_letters.task, dead_letters.reason, dead_letters.died_at from dead_letters
        where dead_letters.task = walked.id and dead_letters.tenant = $1
        offset 0
    ) dead
    cross join lateral (
        select tasks.name, tasks.tags, tasks.schedule, tasks.user_name from tasks where tasks.id = walked.id offset 0
    ) task
    left join lateral (
        select attempts.failure ->> 'type' as failure from attempts where attempts.task = walked.id and attempts.state > 0 limit 1
    ) ended on true
    where ($6::text is null or position(lower($6) in lower(dead.reason)) > 0) and ($7::text is null or ended.failure = $7)
        and ($8::timestamptz is null or dead.died_at >= $8) and dead.died_at < $9
        and ($10::text is null or task.name = $10) and ($11::jsonb is null or task.tags @> $11)
        and ($12::bigint is null or task.schedule = $12) and ($13::text is null or task.user_name = $13)
    order by dead.task desc
    limit $4
)
select (select count(*) from walked) as walked, (select min(id) from walked) as last,
    array(select id from found order by id desc) as ids, array(select {FAILED}::smallint from found) as states
