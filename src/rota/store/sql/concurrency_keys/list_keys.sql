-- A tenant's concurrency keys: those with live tasks (by pool, unless they are global) and those that are cooled down.
with live as (
    select queue.concurrency_key as key, queue.concurrency_global as everywhere,
        case when not queue.concurrency_global then queue.pool end as pool,
        count(*) filter (where queue.state = {RUNNING}) as held, count(*) filter (where queue.state <> {RUNNING}) as waiting,
        max(queue.concurrency_limit) as most, array_agg(distinct queue.concurrency_limit) as limits
    from queue
    where queue.tenant = $1 and queue.concurrency_key is not null
    group by 1, 2, 3
),
cooled as (
    select concurrency_keys.key, concurrency_keys.cooled_until from concurrency_keys
    where concurrency_keys.tenant = $1 and concurrency_keys.cooled_until > now()
)
select coalesce(live.key, cooled.key) as key, live.everywhere, pools.name as pool, coalesce(live.held, 0) as held,
    coalesce(live.waiting, 0) as waiting, live.most, coalesce(live.limits, array[]::integer[]) as limits,
    cooled.cooled_until
from live
full join cooled on cooled.key = live.key
left join pools on pools.id = live.pool
order by 1, live.everywhere desc, pools.name
limit $2
