-- Why a worker's token does not speak for a node of this pool and name: the pool takes none without an identity, or the node
-- has one. No row: it does.
select pools.identified_nodes as by_pool from pools
where pools.id = $1 and (
    pools.identified_nodes or exists (select from node_keys where node_keys.pool = pools.id and node_keys.name = $2)
)
