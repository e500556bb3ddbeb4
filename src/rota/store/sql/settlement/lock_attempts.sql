-- Rows whose fate depends on more than the result, locked in id order. Requests made since the start are read again.
select found.*, task.*, now() as now
from unnest($1::bigint[], $2::smallint[], $3::bigint[]) as given (id, attempt, boot)
cross join lateral (
    select queue.id, queue.attempt, queue.tenant, queue.node, queue.used, queue.losses, queue.attempts,
        queue.cancel_requested, queue.pause_requested, queue.lane, queue.start_by, queue.tolerance_given
    from queue
    where queue.id = given.id and queue.attempt = given.attempt and queue.boot = given.boot and queue.state = {RUNNING}
    for update
) found
cross join lateral (
    -- A retry is promoted only if its lane promotes and the task has a tolerance of its own.
    select tasks.backoff_ms, tasks.backoff_limit_ms, tasks.retry_rules,
        coalesce(found.tolerance_given, tasks.tolerance_given)
            and coalesce((select lanes.promotes from lanes where lanes.rank = found.lane), true) as promotes
    from tasks
    where tasks.id = given.id
        and tasks.id between ($1::bigint[])[1] and ($1::bigint[])[cardinality($1::bigint[])]
    offset 0
) task
