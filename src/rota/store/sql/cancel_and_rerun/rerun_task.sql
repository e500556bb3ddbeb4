-- A new run of an ended task: the same row under a new id, linked to the old one. Its tolerance, and the time at which it
-- becomes urgent, count from now. It keeps its parents, whose results it reads, but waits for none of them.
with copied as (
insert into tasks (id, tenant, user_name, pool, kind, name, lane, priority, tolerance_ms, tolerance_given, start_by,
    urgent_at, tier, shape, scheduling, server, concurrency_key, concurrency_limit, concurrency_global, cap_ms, attempts,
    backoff_ms, backoff_limit_ms, upstream, retry_of, tags, preemptible, category, unplaceable_waits, artifacts, spec,
    schedule, scheduled_for, after_tasks, after_rules, retry_rules, expires,
    tolerance_source, leeway_ms)
select $2, tenant, $3, pool, kind, name, lane, priority, tolerance_ms, tolerance_given,
    now() + tolerance_ms * interval '1 millisecond',
    case when tolerance_given then urgent_at(now() + tolerance_ms * interval '1 millisecond', tolerance_ms) end,
    tier, shape, {Scheduling.RETRY}, $4, concurrency_key, concurrency_limit, concurrency_global, cap_ms, attempts, backoff_ms,
    backoff_limit_ms, upstream, id, tags, preemptible, category, unplaceable_waits, artifacts, spec, schedule,
    scheduled_for, after_tasks, after_rules, retry_rules, expires, tolerance_source, leeway_ms
from tasks where id = $1
returning id, tenant, kind, name
),
event as (
    insert into events (tenant, kind, tasks) select tenant, {Event.SUBMITTED}, array[id, id] from copied
)
select kind, name from copied
