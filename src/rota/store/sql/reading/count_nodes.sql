select pools.name as pool, {nodes/node_state} as state, count(*) as nodes
from nodes join pools on pools.id = nodes.pool
where nodes.state <> 'removed' and nodes.seen_at > now() - make_interval(days => $2)
group by 1, 2 order by 1, 2
