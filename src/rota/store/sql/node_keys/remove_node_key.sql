delete from node_keys where id = $1 returning id
