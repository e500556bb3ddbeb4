-- Whether the agent with the identity `sender.identity` speaks for the node `queue.node`: its own. A worker's token (null)
-- speaks for nodes without an identity, in pools that take these.
case when sender.identity is null then not exists (
        select from nodes join pools on pools.id = nodes.pool
        left join node_keys on node_keys.pool = nodes.pool and node_keys.name = nodes.name
        where nodes.id = queue.node and (pools.identified_nodes or node_keys.id is not null)
    ) else queue.node = (
        select nodes.id from node_keys join nodes on nodes.pool = node_keys.pool and nodes.name = node_keys.name
        where node_keys.id = sender.identity
    ) end
