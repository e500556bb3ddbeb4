-- How many ready rows of its tenant come before a waiting task, counted no further than a bound. Read along queue_order.
select (
    select count(*) from (
        select 1 from queue
        where queue.pool = own.pool and queue.tenant = own.tenant
            and (queue.lane, queue.urgency, queue.start_by, queue.cap_ms, queue.id + 0)
                < (own.lane, own.urgency, own.start_by, own.cap_ms, own.id)
            and queue.state = 3
        limit $3
    ) ahead
) as ahead
from queue own where own.id = $1 and own.tenant = $2
