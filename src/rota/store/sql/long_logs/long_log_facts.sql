-- The facts needed to move output. No row: the task is gone. `kept_bytes`: what the agent said at the end, null before. $3: TAIL_SEQ.
select tasks.tenant,
    exists (select from queue where queue.id = $1 and queue.attempt = $2 and queue.state = {RUNNING}) as running,
    moved.last_seq, moved.size_bytes as moved_bytes, waiting.head_bytes, waiting.tail_bytes,
    (select nullif(attempts.log_bytes, 0) from attempts where attempts.task = $1 and attempts.number = $2) as kept_bytes
from tasks
cross join lateral (
    select coalesce(max(log_segments.last_seq), -1) as last_seq, coalesce(sum(log_segments.size_bytes), 0)::bigint as size_bytes
    from log_segments where log_segments.task = $1 and log_segments.attempt = $2
) moved
cross join lateral (
    select
        coalesce(sum(octet_length(log_chunks.data)) filter (where log_chunks.seq < $3), 0)::bigint as head_bytes,
        coalesce(sum(octet_length(log_chunks.data)) filter (where log_chunks.seq >= $3), 0)::bigint as tail_bytes
    from log_chunks where log_chunks.task = $1 and log_chunks.attempt = $2 and log_chunks.seq > moved.last_seq
) waiting
where tasks.id = $1
