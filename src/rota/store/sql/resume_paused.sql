-- Lets paused tasks go on as what they were. The time they were held back does not count against their tolerance; a
-- blocked one gets its tolerance when it is released.
update queue
set state = case when queue.paused_state = 2 and queue.wake_at <= now() then 3 else queue.paused_state end,
    version = queue.version + 1,
    start_by = case when queue.paused_state = 1 then queue.start_by else queue.start_by + (now() - queue.paused_at) end,
    wake_at = case
        when queue.paused_state = 1 then null
        when queue.paused_state = 2 and queue.wake_at > now() then queue.wake_at
        when coalesce(queue.tolerance_given, tasks.tolerance_given) then queue.start_by + (now() - queue.paused_at)
            - greatest(5000, coalesce(queue.tolerance_ms, tasks.tolerance_ms) / 10) * interval '1 millisecond'
    end,
    expires = tasks.expires and queue.attempt = 0 and queue.paused_state <> 1,
    paused_state = null, paused_at = null, held_reason = null
from tasks
where queue.id = any($1) and queue.tenant = $2 and queue.state = 5 and tasks.id = queue.id
    and tasks.id between ($1::bigint[])[1] and ($1::bigint[])[cardinality($1::bigint[])]
returning queue.id, queue.tenant, queue.lane, queue.urgency, queue.start_by, queue.cap_ms, queue.shape, queue.work,
    queue.version, queue.concurrency_key, queue.concurrency_limit, queue.concurrency_global,
    queue.preemptible, queue.avoid_node, queue.wake_at, queue.state, queue.pool,
    queue.wake_at <= now() as due, extract(epoch from queue.wake_at - now())::float8 as wakes_in
