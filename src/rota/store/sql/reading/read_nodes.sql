select nodes.id, nodes.name, pools.name as pool, nodes.capacity, nodes.labels,
    case when nodes.left_at >= nodes.seen_at then 'left'
        when nodes.seen_at < now() - interval '1 minute' then 'lost'
        when nodes.state = 'up' then coalesce(nodes.closed, 'up') else nodes.state end as state,
    nodes.state = 'draining' as draining,
    nodes.capabilities, nodes.seen_at, nodes.version,
    case when nodes.state = 'draining' then nodes.drain_by end as drain_by
from nodes join pools on pools.id = nodes.pool
where nodes.state <> 'removed'
    and ($1::integer is null or nodes.seen_at > now() - make_interval(days => $1))
order by nodes.id
