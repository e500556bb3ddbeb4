update queue set held_reason = $3 where id = any($1) and tenant = $2 and state = {PAUSED}
