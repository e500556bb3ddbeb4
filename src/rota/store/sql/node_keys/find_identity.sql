-- Of a node token that ends at $2, in microseconds since 1970 by the database's clock.
select node_keys.id, node_keys.pool as pool_id, pools.name as pool, node_keys.name
from node_keys join pools on pools.id = node_keys.pool
where node_keys.id = $1 and $2 > extract(epoch from now()) * 1000000
