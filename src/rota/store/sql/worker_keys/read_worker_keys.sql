select {key_columns} from worker_keys join pools on pools.id = worker_keys.pool
where ($1::text[] is null or pools.name = any ($1)) and ($2::integer is null or worker_keys.id = $2)
order by worker_keys.id desc limit 1000
