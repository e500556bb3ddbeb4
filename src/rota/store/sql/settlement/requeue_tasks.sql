-- Makes locked tasks ready at once or delayed, and records the attempt that ended. A task that is ready at once gets its
-- timer back: the time at which it becomes urgent. A task that its owner pauses is paused, and remembers which of the two
-- states it would have.
with given as materialized (
    select found.location, found.tenant, found.node, found.ran_lane, found.own_lane, found.promotion_told, run.*, given.*
    from unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::integer[],
        $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::json[], $14::timestamptz[],
        $15::timestamptz[], $16::smallint[], $17::smallint[], $18::smallint[], $19::boolean[], $20::timestamptz[])
        as given (id, number, outcome, run_us, cpu_ms, memory, exit_code, log_bytes, log_dropped, written, saving_us,
            frozen_us, failure, ended_at, heard_at, used, losses, lane, paused, wake_at)
    cross join lateral (
        select queue.ctid as location, queue.tenant, queue.node, queue.boot, queue.started_at,
            coalesce(queue.ran_lane, queue.lane) as ran_lane, queue.lane as own_lane, queue.promotion_told
        from queue
        where queue.id = given.id for update
    ) found
    cross join lateral ({run_time}) run
),
kept as (
    insert into attempts (task, number, tenant, state, outcome, node, started_at, ended_at, run_us, cpu_ms,
        peak_memory_bytes, exit_code, failure, log_bytes, log_dropped_bytes, written_bytes, lane, frozen_us)
    select id, number, tenant, 0, outcome, node, began_at, coalesce(ended_at, now()), ran_us, cpu_ms, memory, exit_code, failure, log_bytes, log_dropped, written,
        ran_lane, nullif(frozen_us, 0)
    from given
),
event as (
    -- Of ends only failures are events. A retry that makes its task late rises: a promotion.
    insert into events (tenant, kind, tasks, numbers, details)
    select tenant, kind, array_agg(id), array_agg(number), case when kind = {Event.PAUSED} then json '{}' end
    from (
        select tenant, {Event.ENDED} as kind, id, number from given
        where outcome in ({Outcome.ERROR}, {Outcome.TIMEOUT}, {Outcome.LOST}, {Outcome.REFUSED}, {Outcome.CRASHED},
            {Outcome.BAD_RESULT})
        union all
        select tenant, {Event.PROMOTED}, id, number from given where lane <> own_lane and not promotion_told
        union all
        select tenant, {Event.PAUSED}, id, number from given where paused
    ) told
    group by tenant, kind
    order by kind
)
update queue
set state = case when given.paused then {PAUSED} when given.wake_at is null then {READY} else {DELAYED} end,
    version = queue.version + 1, used = given.used, losses = given.losses, lane = given.lane,
    pause_requested = false, promotion_told = queue.promotion_told or given.lane <> queue.lane,
    paused_state = case when given.paused then case when given.wake_at is null then {READY} else {DELAYED} end end,
    paused_at = case when given.paused then now() end,
    wake_at = coalesce(given.wake_at, (
        select urgent_at(queue.start_by, coalesce(queue.tolerance_ms, tasks.tolerance_ms)) from tasks
        where tasks.id = given.id and coalesce(queue.tolerance_given, tasks.tolerance_given) and not given.paused
    )),
    avoid_node = case when given.outcome in ({Outcome.ERROR}, {Outcome.LOST}, {Outcome.REFUSED}, {Outcome.CRASHED})
        then queue.node else queue.avoid_node end,
    node = null, boot = null, epoch = null, started_at = null
from given
where queue.ctid = given.location and queue.id + 0 = given.id
returning {queue/ready_columns}, queue.wake_at <= now() as due
