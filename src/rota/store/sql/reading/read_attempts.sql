select attempts.number, attempts.outcome, attempts.state, nodes.name as node, attempts.started_at, attempts.ended_at,
    attempts.run_us, attempts.cpu_ms, attempts.peak_memory_bytes, attempts.exit_code, attempts.failure,
    attempts.reason, attempts.log_bytes, attempts.log_dropped_bytes, attempts.written_bytes
from attempts left join nodes on nodes.id = attempts.node
where attempts.task = $1 and attempts.tenant = $2
order by attempts.number = 0, attempts.number
