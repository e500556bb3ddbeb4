-- Releases dependents whose parents have all ended as required. Their tolerance (of an edit or of the request), and the time
-- at which they become urgent, count from now; only `not_before` (of an edit or of the request) can still delay them.
with gone as (
    delete from edges where child = any($1)
)
update queue
set state = case when coalesce(queue.not_before, tasks.not_before) > now() then {DELAYED} else {READY} end,
    version = queue.version + 1,
    expires = tasks.expires,
    start_by = greatest(queue.start_by, now() + coalesce(queue.tolerance_ms, tasks.tolerance_ms) * interval '1 millisecond'),
    wake_at = case
        when coalesce(queue.not_before, tasks.not_before) > now() then coalesce(queue.not_before, tasks.not_before)
        when coalesce(queue.tolerance_given, tasks.tolerance_given)
            then urgent_at(
                greatest(
                    queue.start_by, now() + coalesce(queue.tolerance_ms, tasks.tolerance_ms) * interval '1 millisecond'),
                coalesce(queue.tolerance_ms, tasks.tolerance_ms))
    end
from tasks
where queue.id = any($1) and queue.state = {BLOCKED} and tasks.id = queue.id
    and tasks.id between ($1::bigint[])[1] and ($1::bigint[])[cardinality($1::bigint[])]
returning {queue/ready_columns}, queue.wake_at <= now() as due
