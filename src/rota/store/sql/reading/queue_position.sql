-- How many ready rows of its tenant precede a waiting task, read along queue_order lane by lane: those of lanes that are served
-- earlier, and those before it in the lanes that are served together with its own. The bound is on examined rows, so that
-- rows that wait for other reasons cost no more than ready ones.
select before.ready, before.looked_at
from queue own
join lanes own_lane on own_lane.rank = own.lane
cross join lateral (
    select count(*) filter (where front.state = {READY}) as ready, count(*) as looked_at
    from (
        select one_lane.state
        from lanes
        cross join lateral (
            select queue.state from queue
            where queue.pool = own.pool and queue.tenant = own.tenant and queue.lane = lanes.rank
                and (queue.urgency, queue.start_by, queue.cap_ms, queue.id + 0)
                    < (case when (lanes.level, lanes.gated) = (own_lane.level, own_lane.gated)
                        then own.urgency else 2147483647 end, own.start_by, own.cap_ms, own.id)
            limit $3
        ) one_lane
        where (lanes.level, lanes.gated) <= (own_lane.level, own_lane.gated)
        limit $3
    ) front
) before
where own.id = $1 and own.tenant = $2
