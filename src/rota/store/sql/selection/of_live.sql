-- Live tasks by filter, newest first: at most $4 of the candidates of `walk`, of which at most $3 are examined. The caller learns
-- where the walk stopped. `offset 0` and the lateral lookups force one plan, from the candidates to their rows.
with walked as materialized (
    {walk}
),
found as materialized (
    select queue.id, queue.state
    from walked
    cross join lateral (select queue.* from queue where queue.id = walked.id offset 0) queue
    cross join lateral (
        select tasks.name, tasks.tags, tasks.schedule, tasks.user_name, tasks.created_at from tasks where tasks.id = walked.id
        offset 0
    ) task
    where queue.tenant = $1 and queue.state = any($6::smallint[]) and not queue.cancel_requested
        and (queue.state <> {PAUSED} or not $7 or queue.held_reason is not null)
        and ($8::integer[] is null or queue.node = any($8))
        and {matches}
    order by queue.id desc
    limit $4
)
select (select count(*) from walked) as walked, (select min(id) from walked) as last,
    array(select id from found order by id desc) as ids, array(select state from found order by id desc) as states
