-- A challenge is answered once, and after it none that was made before it.
update node_keys set proved_at = to_timestamp($2::bigint / 1000000.0)
where id = $1 and proved_at < to_timestamp($2::bigint / 1000000.0) returning id
