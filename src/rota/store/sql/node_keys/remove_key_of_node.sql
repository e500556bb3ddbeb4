delete from node_keys using nodes
where nodes.id = $1 and node_keys.pool = nodes.pool and node_keys.name = nodes.name returning node_keys.id
