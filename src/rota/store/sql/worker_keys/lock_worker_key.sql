-- Whoever joins with the same key waits here, so that its uses are counted.
select {key_columns}, worker_keys.secret_hash from worker_keys join pools on pools.id = worker_keys.pool
where worker_keys.public_id = $1 for update of worker_keys
