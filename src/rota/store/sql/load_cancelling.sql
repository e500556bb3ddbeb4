select id, attempt from queue where pool = $1 and cancel_requested and state = 4
