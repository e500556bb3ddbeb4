-- A paused task is held by now, or for another reason.
with held as (
    update queue set held_reason = $3
    where id = any($1) and tenant = $2 and state = {PAUSED} and held_reason is distinct from $3
    returning id
),
event as (
    insert into events (tenant, kind, tasks, details)
    select $2, {Event.HELD}, array_agg(id), json_build_object('user', $4::text, 'reason', $3::text) from held
    having count(*) > 0
)
select id from held
