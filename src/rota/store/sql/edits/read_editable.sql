-- A live task before an edit, after its row was locked. The tolerance is that of an earlier edit or of the request.
select queue.state, queue.version, queue.pool, queue.urgency, queue.cap_ms, queue.start_by, queue.cancel_requested,
    coalesce(queue.not_before, tasks.not_before) as not_before, now() as now,
    coalesce(queue.tolerance_ms, tasks.tolerance_ms) as tolerance_ms,
    coalesce(queue.tolerance_given, tasks.tolerance_given) as tolerance_given, queue.leeway_ms,
    lanes.name as lane_name, coalesce(lanes.promotes, true) as promotes, pools.name as pool_name
from queue
join tasks on tasks.id = queue.id
join pools on pools.id = queue.pool
left join lanes on lanes.rank = queue.lane
where queue.id = $1 and tasks.id = $1
