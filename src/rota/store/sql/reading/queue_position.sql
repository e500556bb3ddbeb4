-- How many ready rows of its tenant precede a waiting task, read along queue_order. The bound is on examined rows, so that
-- rows that wait for other reasons cost no more than ready ones.
select before.ready, before.looked_at
from queue own
cross join lateral (
    select count(*) filter (where front.state = {READY}) as ready, count(*) as looked_at
    from (
        select queue.state from queue
        where queue.pool = own.pool and queue.tenant = own.tenant
            and (queue.lane, queue.urgency, queue.start_by, queue.cap_ms, queue.id + 0)
                < (own.lane, own.urgency, own.start_by, own.cap_ms, own.id)
        limit $3
    ) front
) before
where own.id = $1 and own.tenant = $2
