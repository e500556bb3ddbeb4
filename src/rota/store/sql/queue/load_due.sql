-- Rows whose timer has run out, past a cursor, bounded per tenant. A start accepts them as they are, so becoming due
-- writes nothing.
select head.*
from unnest($2::integer[], $3::timestamptz[]) as wanted (tenant, after)
cross join lateral (
    select {ready_columns}, queue.wake_at <= now() as due, queue.promotion_told
    from queue
    where queue.pool = $1 and queue.tenant = wanted.tenant and queue.wake_at >= wanted.after
        and queue.wake_at <= now() and queue.state in ({DELAYED}, {READY})
        and not (queue.expires and queue.start_by < now() and queue.attempt = 0)
    order by queue.wake_at
    limit $4
) head
