-- Tasks of a tenant in any state, newest first. The part `chosen` is a condition on $5 that an index serves. At most $8 are
-- examined, as in list_ended.
select task.id, coalesce(queue.state, ended.state) as state, coalesce(queue.attempt, ended.number) as attempt, task.name,
    task.kind, (select lanes.name from lanes where lanes.rank = coalesce({queue/lane_now}, ended.lane, task.lane)) as lane_name, task.tier,
    coalesce(-queue.urgency, task.priority) as priority,
    task.created_at, coalesce(queue.started_at, ended.started_at) as started_at, ended.ended_at,
    (select nodes.name from nodes where nodes.id = coalesce(queue.node, ended.node)) as node, ended.exit_code,
    task.user_name, (select pools.name from pools where pools.id = coalesce(queue.pool, task.pool)) as pool, task.tags,
    queue.wake_at, coalesce(ended.reason, queue.held_reason) as reason, ended.run_us, progress.fraction,
    progress.message as progress_message, progress.at as progress_at
from (
    select tasks.* from tasks
    where tasks.tenant = $1 and tasks.id < $2 and tasks.id > $9 and {chosen}
        and not ($15 and exists (select from graph_tasks where graph_tasks.task = tasks.id and graph_tasks.item is not null))
    order by tasks.id desc
    limit $8
) task
left join lateral (
    select attempts.state, attempts.number, attempts.started_at, attempts.ended_at, attempts.node, attempts.exit_code,
        attempts.reason, attempts.run_us, attempts.lane
    from attempts where attempts.task = task.id and attempts.state > 0 limit 1
) ended on true
left join lateral (select queue.* from queue where queue.id = task.id offset 0) queue on true
left join lateral (
    select progress.* from progress where progress.task = queue.id and progress.attempt = queue.attempt and queue.state = {RUNNING}
    offset 0
) progress on true
where coalesce(queue.state, ended.state) = any($3::smallint[])
    and ($4::integer[] is null or coalesce(queue.node, ended.node) = any($4)) and ($11::text is null or task.user_name = $11)
    and ($6::timestamptz is null or task.created_at >= $6) and ($7::timestamptz is null or task.created_at < $7)
    and ($12::text is null or task.name = $12) and ($13::jsonb is null or task.tags @> $13)
    and ($14::bigint is null or task.schedule = $14)
order by task.id desc
limit $10
