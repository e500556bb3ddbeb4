select task, state from attempts where task = any($1) and tenant = $2 and state > 0
