-- Pauses waiting tasks, with a reason ($3) if it is a hold. A delayed task keeps its timer; the others get a new one when
-- they are resumed.
update queue
set state = {PAUSED}, version = queue.version + 1, paused_state = queue.state, paused_at = now(), held_reason = $3, expires = false,
    wake_at = case when queue.state = {DELAYED} then queue.wake_at end
where id = any($1) and tenant = $2 and state in ({BLOCKED}, {DELAYED}, {READY})
returning id, pool
