-- Asks for running tasks to be stopped. The version rises, the leader hears of it, the settlement reads it again.
update queue set cancel_requested = true, version = queue.version + 1
where id = any($1) and tenant = $2 and state = {RUNNING} and not cancel_requested
returning id, pool, attempt
