-- The next ready rows of several tenants, each past its own cursor in its own order.
select head.*
from unnest($2::integer[], $3::smallint[], $4::integer[], $5::timestamptz[], $6::bigint[], $7::bigint[], $8::integer[])
    as wanted (tenant, lane, urgency, start_by, cap_ms, id, amount)
cross join lateral (
    select {ready_columns}, queue.wake_at <= now() as due
    from queue
    where queue.pool = $1 and queue.tenant = wanted.tenant
        and (queue.lane, queue.urgency, queue.start_by, queue.cap_ms, queue.id + 0)
            > (wanted.lane, wanted.urgency, wanted.start_by, wanted.cap_ms, wanted.id)
        and queue.state = {READY} and not (queue.expires and queue.start_by < now() and queue.attempt = 0)
    order by queue.lane, queue.urgency, queue.start_by, queue.cap_ms, queue.id + 0
    limit wanted.amount
) head
