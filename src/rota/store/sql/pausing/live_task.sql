select state, pause_requested, cancel_requested from queue where id = $1 and tenant = $2
