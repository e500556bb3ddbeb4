-- The next ready rows of several tenants, each past its own cursor in its own order. Lanes of one rank are merged, because
-- the leader serves them together; a rank is only read if the ones before it have too few rows. The lateral joins make a
-- nested loop of every plan, so ranks are read in the order in which they are given.
select head.*
from unnest($2::integer[], $3::integer[], $4::integer[], $5::timestamptz[], $6::bigint[], $7::bigint[], $8::integer[])
    as wanted (tenant, rank, urgency, start_by, cap_ms, id, amount)
cross join lateral (
    select merged.*
    from unnest($9::integer[]) as served (rank)
    cross join lateral (
        select one_lane.*
        from unnest($10::smallint[], $11::integer[]) as own (lane, rank)
        cross join lateral (
            select {ready_columns}, queue.wake_at <= now() as due
            from queue
            where queue.pool = $1 and queue.tenant = wanted.tenant and queue.lane = own.lane
                and (queue.urgency, queue.start_by, queue.cap_ms, queue.id + 0)
                    > (case when served.rank = wanted.rank then wanted.urgency else -2147483648 end,
                        wanted.start_by, wanted.cap_ms, wanted.id)
                and queue.state = {READY} and not (queue.expires and queue.start_by < now() and queue.attempt = 0)
            order by queue.urgency, queue.start_by, queue.cap_ms, queue.id + 0
            limit wanted.amount
        ) one_lane
        where own.rank = served.rank
        order by one_lane.urgency, one_lane.start_by, one_lane.cap_ms, one_lane.id
        limit wanted.amount
    ) merged
    where served.rank >= wanted.rank
    limit wanted.amount
) head
