-- Dead letters of a tenant by filter, newest first. At most $3 are examined, as in list_ended. `reason` may match any
-- part of the sentence.
select dead.task as id, dead.reason, dead.died_at, task.name, task.kind, task.created_at, task.user_name, task.attempts,
    task.tags, (select pools.name from pools where pools.id = task.pool) as pool, ended.number, ended.exit_code, ended.failure
from (
    select dead_letters.task, dead_letters.reason, dead_letters.died_at
    from dead_letters
    where dead_letters.tenant = $1 and dead_letters.task < $2
        and ($5::bigint[] is null or dead_letters.task = any($5))
    order by dead_letters.task desc
    limit $3
) dead
cross join lateral (select tasks.* from tasks where tasks.id = dead.task offset 0) task
left join lateral (
    select attempts.number, attempts.exit_code, attempts.failure ->> 'type' as failure
    from attempts where attempts.task = dead.task and attempts.state > 0 limit 1
) ended on true
where ($6::text is null or task.name = $6) and ($7::jsonb is null or task.tags @> $7)
    and ($8::bigint is null or task.schedule = $8)
    and ($9::text is null or position(lower($9) in lower(dead.reason)) > 0)
    and ($10::text is null or ended.failure = $10)
    and ($11::timestamptz is null or dead.died_at >= $11) and ($12::timestamptz is null or dead.died_at < $12)
    and ($13::text is null or task.user_name = $13)
order by dead.task desc
limit $4
