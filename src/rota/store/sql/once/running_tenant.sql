select queue.tenant from queue cross join (select $3::integer as identity) sender
where queue.id = $1 and queue.attempt = $2 and queue.state = {RUNNING}
    and {node_keys/speaks_for}
