-- Returns paused tasks to their former state. The pause does not count against their tolerance; a blocked task gets its
-- tolerance when it is released. Lateral and `offset 0` force one lookup for each task, however many there are.
with was as materialized (
    select queue.id, queue.held_reason is not null as held, task.tolerance_given, task.tolerance_ms, task.expires
    from queue
    cross join lateral (
        select tasks.tolerance_given, tasks.tolerance_ms, tasks.expires from tasks where tasks.id = queue.id offset 0
    ) task
    where queue.id = any($1) and queue.tenant = $2 and queue.state = {PAUSED}
),
resumed as (
    update queue
    set state = case when queue.paused_state = {DELAYED} and queue.wake_at <= now() then {READY} else queue.paused_state end,
        version = queue.version + 1,
        start_by = case when queue.paused_state = {BLOCKED} then queue.start_by else queue.start_by + (now() - queue.paused_at) end,
        wake_at = case
            when queue.paused_state = {BLOCKED} then null
            when queue.paused_state = {DELAYED} and queue.wake_at > now() then queue.wake_at
            when coalesce(queue.tolerance_given, was.tolerance_given) then urgent_at(
                queue.start_by + (now() - queue.paused_at), coalesce(queue.tolerance_ms, was.tolerance_ms))
        end,
        expires = was.expires and queue.attempt = 0 and queue.paused_state <> {BLOCKED},
        paused_state = null, paused_at = null, held_reason = null
    from was
    where queue.id = was.id
    returning {queue/ready_columns}, queue.pool, was.held, queue.wake_at <= now() as due, extract(epoch from queue.wake_at - now())::float8 as wakes_in
),
event as (
    insert into events (tenant, kind, tasks, details)
    select $2, case when held then {Event.RELEASED} else {Event.RESUMED} end, array_agg(id), json_build_object('user', $3::text)
    from resumed group by held
)
select * from resumed
