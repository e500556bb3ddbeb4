-- By the number or the name of the node; one that joined and never registered has a name only.
select node_keys.id, node_keys.name, pools.name as pool, node_keys.public_key, node_keys.joined_at, node_keys.joined_with
from node_keys join pools on pools.id = node_keys.pool
left join nodes on nodes.pool = node_keys.pool and nodes.name = node_keys.name
where nodes.id = $1::integer or node_keys.name = $2
order by pools.name
