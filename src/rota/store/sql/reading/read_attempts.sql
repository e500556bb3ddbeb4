-- The attempts of some tasks, oldest first: those that have ended, and the one that runs.
select found.* from (
    select attempts.task, attempts.number, attempts.outcome, attempts.state, nodes.name as node, attempts.started_at, attempts.ended_at,
        attempts.run_us, attempts.cpu_ms, attempts.peak_memory_bytes, attempts.exit_code, attempts.failure,
        attempts.reason, attempts.log_bytes, attempts.log_dropped_bytes, attempts.written_bytes,
        (select lanes.name from lanes where lanes.rank = attempts.lane) as lane,
        attempts.frozen_us
    from attempts left join nodes on nodes.id = attempts.node
    where attempts.task = any($1::bigint[]) and attempts.tenant = $2
    union all
    select queue.id, queue.attempt, null, 0, nodes.name, queue.started_at, null,
        null, null, null, null, null, null, 0, 0, null,
        (select lanes.name from lanes where lanes.rank = coalesce(queue.ran_lane, queue.lane)),
        null
    from queue left join nodes on nodes.id = queue.node
    where queue.id = any($1::bigint[]) and queue.tenant = $2 and queue.state = {RUNNING}
) found
order by found.task, found.number = 0, found.number
