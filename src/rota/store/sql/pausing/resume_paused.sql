-- Returns paused tasks to their former state. The pause does not count against their tolerance; a blocked task gets its
-- tolerance when it is released.
with was as materialized (
    select id, held_reason is not null as held from queue where id = any($1) and tenant = $2 and state = {PAUSED}
),
resumed as (
    update queue
    set state = case when queue.paused_state = {DELAYED} and queue.wake_at <= now() then {READY} else queue.paused_state end,
        version = queue.version + 1,
        start_by = case when queue.paused_state = {BLOCKED} then queue.start_by else queue.start_by + (now() - queue.paused_at) end,
        wake_at = case
            when queue.paused_state = {BLOCKED} then null
            when queue.paused_state = {DELAYED} and queue.wake_at > now() then queue.wake_at
            when coalesce(queue.tolerance_given, tasks.tolerance_given) then urgent_at(
                queue.start_by + (now() - queue.paused_at), coalesce(queue.tolerance_ms, tasks.tolerance_ms))
        end,
        expires = tasks.expires and queue.attempt = 0 and queue.paused_state <> {BLOCKED},
        paused_state = null, paused_at = null, held_reason = null
    from tasks join was using (id)
    where queue.id = any($1) and queue.tenant = $2 and queue.state = {PAUSED} and tasks.id = queue.id
        and tasks.id between ($1::bigint[])[1] and ($1::bigint[])[cardinality($1::bigint[])]
    returning {queue/ready_columns}, queue.pool, was.held, queue.wake_at <= now() as due, extract(epoch from queue.wake_at - now())::float8 as wakes_in
),
event as (
    insert into events (tenant, kind, tasks, details)
    select $2, case when held then {Event.RELEASED} else {Event.RESUMED} end, array_agg(id), json_build_object('user', $3::text)
    from resumed group by held
)
select * from resumed
