-- Asks for running tasks to save what they have and stop. The leader hears of it, the settlement reads it again.
update queue set pause_requested = true, version = queue.version + 1
where id = any($1) and tenant = $2 and state = {RUNNING} and not pause_requested and not cancel_requested
returning id, pool, attempt
