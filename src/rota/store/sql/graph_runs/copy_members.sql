-- New runs of many tasks: the same rows under new ids with new parents (the edges), ready or blocked. `retry_of` links them
-- to the old tasks if it is a retry ($9).
with edge as materialized (
    select * from unnest($5::bigint[], $6::bigint[], $7::smallint[]) with ordinality as edge (child, parent, rule, number)
),
after as materialized (
    select child, array_agg(parent order by number) as parents, array_agg(rule order by number) as rules
    from edge group by child
),
pair as materialized (
    select * from unnest($1::bigint[], $2::bigint[], $3::integer[], $4::boolean[]) as pair (old, new, work, blocked)
),
copied as (
    insert into tasks (id, tenant, user_name, pool, kind, name, lane, priority, tolerance_ms, tolerance_given, start_by,
        urgent_at, tier, shape, scheduling, server, concurrency_key, concurrency_limit, concurrency_global, cap_ms, attempts,
        backoff_ms, backoff_limit_ms, upstream, retry_of, tags, preemptible, category, unplaceable_waits, artifacts, spec,
        schedule, scheduled_for, after_tasks, after_rules, retry_rules, expires,
        tolerance_source, leeway_ms)
    select pair.new, tenant, $8, pool, kind, name, lane, priority, tolerance_ms, tolerance_given,
        now() + tolerance_ms * interval '1 millisecond',
        case when tolerance_given then urgent_at(now() + tolerance_ms * interval '1 millisecond', tolerance_ms) end,
        tier, shape,
        case when $9 then {Scheduling.RETRY} when after.child is not null then {Scheduling.DEPENDENT} else {Scheduling.NOW} end, $10, concurrency_key, concurrency_limit,
        concurrency_global, cap_ms, attempts, backoff_ms, backoff_limit_ms, upstream, case when $9 then tasks.id end, tags,
        preemptible, category, unplaceable_waits, artifacts, spec, schedule, scheduled_for, after.parents, after.rules,
        retry_rules, expires, tolerance_source, leeway_ms
    from pair
    join tasks on tasks.id = pair.old
    left join after on after.child = pair.new
    where tasks.id = any($1)
    returning *
),
event as (
    insert into events (tenant, kind, tasks)
    select tenant, {Event.SUBMITTED}, array_agg(run.edge order by run.edge)
    from copied cross join lateral unnest(array[copied.id, copied.id]) run (edge) group by tenant
)
insert into queue (id, state, start_by, wake_at, pool, tenant, lane, urgency, cap_ms, shape, work, attempts, concurrency_key,
    concurrency_limit, preemptible, concurrency_global, expires, leeway_ms)
select copied.id, case when pair.blocked then {BLOCKED} else {READY} end, start_by, urgent_at, pool, tenant, lane, -priority, cap_ms, shape,
    pair.work, attempts, concurrency_key, concurrency_limit, preemptible, concurrency_global,
    expires and not pair.blocked, leeway_ms
from copied join pair on pair.new = copied.id
returning {queue/ready_columns}, queue.pool, false as due
