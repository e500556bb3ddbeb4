-- Counts tasks that a running attempt submits into its graph, unless there would be more than $4. Its row is locked until the
-- transaction ends: a settlement or a cancellation comes before and refuses these tasks, or after and finds them. So is the
-- graph's: concurrent requests together can't exceed the limit.
with live as (
    select queue.id from queue
    where queue.id = $5 and queue.attempt = $6 and queue.tenant = $2 and queue.state = {RUNNING} and not queue.cancel_requested
    for share
),
taken as (
    update graphs set joined = graphs.joined + $3
    from live
    where graphs.id = $1 and graphs.tenant = $2 and graphs.joined + $3 <= $4
    returning graphs.joined
)
select exists (select from live) as is_live, (select taken.joined from taken) as joined
