-- Requests a stop of running tasks. The version rises; the leader reads the request, and the settlement reads it again.
update queue set cancel_requested = true, version = queue.version + 1
where id = any($1) and tenant = $2 and state = {RUNNING} and not cancel_requested
returning id, pool, attempt
