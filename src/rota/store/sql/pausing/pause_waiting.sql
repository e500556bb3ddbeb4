-- Holds waiting tasks back at their owner's wish, who may say why ($3). One that waits for a time keeps it; the others get a
-- new timer later.
update queue
set state = {PAUSED}, version = queue.version + 1, paused_state = queue.state, paused_at = now(), held_reason = $3, expires = false,
    wake_at = case when queue.state = {DELAYED} then queue.wake_at end
where id = any($1) and tenant = $2 and state in ({BLOCKED}, {DELAYED}, {READY})
returning id, pool
