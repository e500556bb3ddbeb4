-- Its owner thought better of it before it had stopped: the attempt may still end, and the task goes on at once.
update queue set pause_requested = false, version = queue.version + 1
where id = any($1) and tenant = $2 and state = {RUNNING} and pause_requested
returning id
