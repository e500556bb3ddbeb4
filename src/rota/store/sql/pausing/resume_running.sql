-- Takes a pause back before the attempt has stopped: the attempt may still end, and the task is then ready at once.
update queue set pause_requested = false, version = queue.version + 1
where id = any($1) and tenant = $2 and state = {RUNNING} and pause_requested
returning id
