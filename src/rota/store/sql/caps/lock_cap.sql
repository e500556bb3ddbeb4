select cap_ms, state, attempt from queue where id = $1 and tenant = $2 for update
