-- Requests that running tasks save their state and stop. The leader reads the request, and the settlement reads it again.
update queue set pause_requested = true, version = queue.version + 1
where id = any($1) and tenant = $2 and state = {RUNNING} and not pause_requested and not cancel_requested
returning id, pool, attempt
