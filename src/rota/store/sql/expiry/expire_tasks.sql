-- Drops tasks that have not started by their start-by time, if their owners chose so. `retry_after` is about the tolerance,
-- spread by the id, so that clients of tasks dropped together don't return together.
with due as materialized (
    select queue.id from queue
    where queue.expires and queue.start_by < now() and queue.state in ({DELAYED}, {READY}) and queue.attempt = 0
    order by queue.start_by
    limit $1
    for update skip locked
),
ended as (
    delete from queue using due where queue.id = due.id
    returning queue.id, queue.tenant, queue.pool, queue.start_by, queue.tolerance_ms
),
reasoned as (
    select ended.*, format(
            'it could not start by %s; try again later',
            to_char(ended.start_by at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
        ) as sentence,
        round(least(3600, greatest(1,
            coalesce(ended.tolerance_ms, task.tolerance_ms) / 1000.0 * (0.75 + abs(hashint8(ended.id) % 1000) / 2000.0)
        ))) as retry_after
    from ended
    cross join lateral (select tasks.tolerance_ms from tasks where tasks.id = ended.id offset 0) task
),
kept as (
    insert into attempts (task, number, tenant, state, outcome, reason, failure)
    select id, 0, tenant, {EXPIRED}, {Outcome.NEVER}, sentence,
        json_build_object('type', 'expired', 'message', sentence, 'traceback', '', 'retry_after', retry_after)
    from reasoned
),
event as (
    insert into events (tenant, kind, tasks, numbers)
    select tenant, {Event.ENDED}, array_agg(id), array_agg(0::smallint) from ended group by tenant
)
select id, pool from ended
