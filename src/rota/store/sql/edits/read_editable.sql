-- Live tasks before an edit, after their rows were locked. The tolerance is that of an earlier edit or of the request.
select queue.id, queue.state, queue.version, queue.pool, queue.urgency, queue.cap_ms, queue.start_by, queue.cancel_requested,
    coalesce(queue.not_before, task.not_before) as not_before, now() as now,
    coalesce(queue.tolerance_ms, task.tolerance_ms) as tolerance_ms,
    coalesce(queue.tolerance_given, task.tolerance_given) as tolerance_given, queue.leeway_ms,
    lanes.name as lane_name, coalesce(lanes.promotes, true) as promotes, pools.name as pool_name
from queue
cross join lateral (
    select tasks.not_before, tasks.tolerance_ms, tasks.tolerance_given from tasks where tasks.id = queue.id offset 0
) task
join pools on pools.id = queue.pool
left join lanes on lanes.rank = queue.lane
where queue.id = any($1)
order by queue.id
