select task, tenant, state from attempts
where task = any($1) and state > 0
