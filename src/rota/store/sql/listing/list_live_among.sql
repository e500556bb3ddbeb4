-- As list_live, of the given ids.
select queue.id, queue.state, queue.attempt, tasks.name, tasks.kind, lanes.name as lane_name, tasks.tier,
    -queue.urgency as priority, tasks.created_at, queue.started_at, null::timestamptz as ended_at, nodes.name as node, null::integer as exit_code,
    tasks.user_name, pools.name as pool, tasks.tags, queue.wake_at, queue.held_reason as reason, null::bigint as run_us,
    progress.fraction, progress.message as progress_message, progress.at as progress_at
from queue
join tasks on tasks.id = queue.id
join pools on pools.id = queue.pool
left join lanes on lanes.rank = {queue/lane_now}
left join nodes on nodes.id = queue.node
left join progress on progress.task = queue.id and progress.attempt = queue.attempt and queue.state = {RUNNING}
where queue.id = any($9) and queue.tenant = $1 and queue.id < $2 and queue.state = any($3)
    and ($4::integer[] is null or queue.node = any($4)) and ($5::text is null or tasks.user_name = $5)
    and ($6::timestamptz is null or tasks.created_at >= $6) and ($7::timestamptz is null or tasks.created_at < $7)
order by queue.id desc
limit $8
