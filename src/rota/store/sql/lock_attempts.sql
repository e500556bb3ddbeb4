-- The rows whose fate depends on more than the result: locked in id order, re-reading what was asked meanwhile.
select queue.id, queue.attempt, queue.tenant, queue.node, queue.used, queue.losses, queue.attempts, queue.cancel_requested,
    queue.lane, queue.start_by, tasks.backoff_ms, tasks.backoff_limit_ms, now() as now
from unnest($1::bigint[], $2::smallint[], $3::bigint[]) as given (id, attempt, boot)
join queue on queue.id = given.id and queue.attempt = given.attempt and queue.boot = given.boot and queue.state = 4
join tasks on tasks.id = queue.id and tasks.id = any($1)
order by queue.id
for update of queue
