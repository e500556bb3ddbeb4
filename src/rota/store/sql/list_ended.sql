-- Ended tasks of a tenant in one final state, newest first, along the index of final rows.
select attempts.task as id, attempts.state, attempts.number as attempt, tasks.name, tasks.kind, tasks.lane, tasks.tier,
    tasks.priority, tasks.created_at, attempts.started_at, attempts.ended_at, nodes.name as node, attempts.exit_code,
    tasks.user_name, pools.name as pool, tasks.tags, null::timestamptz as wake_at, attempts.reason, attempts.run_us
from attempts
join tasks on tasks.id = attempts.task
join pools on pools.id = tasks.pool
left join nodes on nodes.id = attempts.node
where attempts.tenant = $1 and attempts.state = $3 and attempts.state > 0 and attempts.task < $2
    and ($4::text is null or tasks.name = $4) and ($5::jsonb is null or tasks.tags @> $5)
order by attempts.task desc
limit $6
