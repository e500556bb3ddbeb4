select task, state from attempts where task = any($1) and state > 0
