select node_keys.id, node_keys.name, pools.name as pool, node_keys.public_key, node_keys.joined_at, node_keys.joined_with
from node_keys join pools on pools.id = node_keys.pool
where pools.name = $1 and node_keys.name = $2
