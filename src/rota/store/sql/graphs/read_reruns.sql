select task, rerun from reruns where task = any($1) and tenant = $2
