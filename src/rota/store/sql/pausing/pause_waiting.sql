-- Pauses waiting tasks, with a reason ($3) if it is a hold. A delayed task keeps its timer; the others get a new one when
-- they are resumed.
with paused as (
    update queue
    set state = {PAUSED}, version = queue.version + 1, paused_state = queue.state, paused_at = now(), held_reason = $3, expires = false,
        wake_at = case when queue.state = {DELAYED} then queue.wake_at end
    where id = any($1) and tenant = $2 and state in ({BLOCKED}, {DELAYED}, {READY})
    returning id, pool
),
event as (
    insert into events (tenant, kind, tasks, details)
    select $2, case when $3::text is null then {Event.PAUSED} else {Event.HELD} end, array_agg(id),
        json_build_object('user', $4::text, 'reason', $3::text)
    from paused
    having count(*) > 0
)
select id, pool from paused
