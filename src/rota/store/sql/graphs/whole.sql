select $1::bigint union all select part.id from graphs part where part.within = $1
