-- Those of the names, each in a pool, for which no worker's token speaks any more.
select wanted.pool, wanted.name from unnest($1::smallint[], $2::text[]) as wanted (pool, name)
join pools on pools.id = wanted.pool
left join node_keys on node_keys.pool = wanted.pool and node_keys.name = wanted.name
where pools.identified_nodes or node_keys.id is not null
