select tenant from queue where id = $1 and attempt = $2 and state = {RUNNING}
