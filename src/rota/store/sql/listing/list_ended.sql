-- Tasks of a tenant in one final state, newest first, by the index of final rows; with $11 without members of arrays.
-- `offset 0` and the lateral lookup force one plan, from the newest final rows to their tasks: otherwise the planner may
-- walk all tasks of the tenant. At most $8 are examined: the caller learns where the walk stopped and continues there.
select ended.task as id, ended.state, ended.number as attempt, task.name, task.kind,
    (select lanes.name from lanes where lanes.rank = coalesce(ended.lane, task.lane)) as lane_name, task.tier, task.priority,
    task.created_at, ended.started_at, ended.ended_at, (select nodes.name from nodes where nodes.id = ended.node) as node,
    ended.exit_code, task.user_name, (select pools.name from pools where pools.id = task.pool) as pool, task.tags,
    null::timestamptz as wake_at, ended.reason, ended.run_us,
    null::real as fraction, null::text as progress_message, null::timestamptz as progress_at
from (
    select attempts.task, attempts.state, attempts.number, attempts.started_at, attempts.ended_at, attempts.node,
        attempts.exit_code, attempts.reason, attempts.run_us, attempts.lane
    from attempts
    where attempts.tenant = $1 and attempts.state = $3 and attempts.state > 0 and attempts.task < $2
        and attempts.task > $9
        and not ($11 and exists (select from graph_tasks where graph_tasks.task = attempts.task and graph_tasks.item is not null))
    order by attempts.task desc
    limit $8
) ended
cross join lateral (select tasks.* from tasks where tasks.id = ended.task offset 0) task
where ($4::integer[] is null or ended.node = any($4)) and ($5::text is null or task.user_name = $5)
    and ($6::timestamptz is null or task.created_at >= $6) and ($7::timestamptz is null or task.created_at < $7)
order by ended.task desc
limit $10
