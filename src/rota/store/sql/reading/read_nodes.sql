select nodes.id, nodes.name, pools.name as pool, nodes.capacity, nodes.labels,
    {nodes/node_state} as state,
    case when nodes.state = 'up' then coalesce(nodes.closed, 'up') else nodes.state end as state_if_connected,
    nodes.state = 'draining' as draining,
    nodes.capabilities, nodes.seen_at, nodes.version,
    case when nodes.state = 'draining' then nodes.drain_by end as drain_by,
    node_keys.public_key, node_keys.joined_at, node_keys.joined_with
from nodes join pools on pools.id = nodes.pool
left join node_keys on node_keys.pool = nodes.pool and node_keys.name = nodes.name
where nodes.state <> 'removed'
    and ($2::integer is null or nodes.seen_at > now() - make_interval(days => $2))
order by nodes.id
