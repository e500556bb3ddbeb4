-- Cancels waiting tasks in id order. Attempt number 0: the task was not running.
with ended as (
    delete from queue where id = any($1) and tenant = $2 and state in ({BLOCKED}, {DELAYED}, {READY}, {PAUSED})
    returning queue.id, queue.tenant, queue.pool
),
kept as (
    insert into attempts (task, number, tenant, state, outcome, reason)
    select id, 0, tenant, {CANCELLED}, {Outcome.NEVER}, $3 from ended
),
event as (
    insert into events (tenant, kind, tasks, numbers)
    select tenant, {Event.ENDED}, array_agg(id), array_agg(0::smallint) from ended group by tenant
)
select id, pool from ended
