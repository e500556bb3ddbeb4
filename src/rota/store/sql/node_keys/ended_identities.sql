select wanted.id from unnest($1::integer[]) as wanted (id)
left join node_keys on node_keys.id = wanted.id
where node_keys.id is null
