-- Children whose parents have all ended as they wanted: free to run. Their tolerance (an edit's, or the one they came with)
-- counts from now, and with it the time at which they become urgent; only a time their owner gave (`not_before`) still
-- holds them back.
with gone as (
    delete from edges where child = any($1)
)
update queue
set state = case when tasks.not_before > now() then 2 else 3 end,
    version = queue.version + 1,
    expires = tasks.expires,
    start_by = greatest(queue.start_by, now() + coalesce(queue.tolerance_ms, tasks.tolerance_ms) * interval '1 millisecond'),
    wake_at = case
        when tasks.not_before > now() then tasks.not_before
        when coalesce(queue.tolerance_given, tasks.tolerance_given)
            then greatest(
                queue.start_by, now() + coalesce(queue.tolerance_ms, tasks.tolerance_ms) * interval '1 millisecond')
            - greatest(5000, coalesce(queue.tolerance_ms, tasks.tolerance_ms) / 10) * interval '1 millisecond'
    end
from tasks
where queue.id = any($1) and queue.state = 1 and tasks.id = queue.id
    and tasks.id between ($1::bigint[])[1] and ($1::bigint[])[cardinality($1::bigint[])]
returning queue.id, queue.tenant, queue.lane, queue.urgency, queue.start_by, queue.cap_ms, queue.shape, queue.work,
    queue.version, queue.concurrency_key, queue.concurrency_limit, queue.concurrency_global,
    queue.preemptible, queue.avoid_node, queue.wake_at, queue.state,
    queue.wake_at <= now() as due
