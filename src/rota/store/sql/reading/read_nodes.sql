select nodes.id, nodes.name, pools.name as pool, nodes.capacity, nodes.labels,
    {nodes/node_state} as state,
    case when nodes.state = 'up' then coalesce(nodes.closed, 'up') else nodes.state end as state_if_connected,
    nodes.state = 'draining' as draining,
    nodes.capabilities, nodes.seen_at, nodes.version,
    case when nodes.state = 'draining' then nodes.drain_by end as drain_by
from nodes join pools on pools.id = nodes.pool
where nodes.state <> 'removed'
    and ($2::integer is null or nodes.seen_at > now() - make_interval(days => $2))
order by nodes.id
