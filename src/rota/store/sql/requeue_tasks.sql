-- Makes locked tasks due again, at once (state 3) or later (state 2), and keeps the attempt that ended. One that is ready
-- at once gets its old timer back: the time at which it becomes urgent. Those whose owner wants them paused (state 5) are
-- held back instead, and remember which of the two they would have been.
with given as materialized (
    select found.place, found.tenant, found.node, given.*
    from unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::smallint[], $5::smallint[],
        $6::timestamptz[], $7::smallint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::integer[], $12::json[],
        $13::bigint[], $14::bigint[], $15::timestamptz[], $16::bigint[], $17::boolean[])
        as given (id, number, outcome, used, losses, wake_at, lane, run_us, cpu_ms, memory, exit_code, failure,
            log_bytes, log_dropped, ended_at, written, paused)
    cross join lateral (
        select queue.ctid as place, queue.tenant, queue.node from queue where queue.id = given.id for update
    ) found
),
kept as (
    insert into attempts (task, number, tenant, state, outcome, node, started_at, ended_at, run_us, cpu_ms,
        peak_memory_bytes, exit_code, failure, log_bytes, log_dropped_bytes, written_bytes)
    select id, number, tenant, 0, outcome, node, coalesce(ended_at, now()) - run_us * interval '1 microsecond', coalesce(ended_at, now()),
        run_us, cpu_ms, memory,
        exit_code, failure, log_bytes, log_dropped, written
    from given
),
told as (
    -- Those that failed: error, timeout, lost, refused, crashed, bad result. The others are nobody's news.
    insert into events (tenant, kind, tasks, numbers)
    select tenant, 3, array_agg(id), array_agg(number) from given where outcome in (2, 3, 5, 7, 8, 9) group by tenant
)
update queue
set state = case when given.paused then 5 when given.wake_at is null then 3 else 2 end,
    version = queue.version + 1, used = given.used, losses = given.losses, lane = given.lane,
    pause_requested = false,
    paused_state = case when given.paused then case when given.wake_at is null then 3 else 2 end end,
    paused_at = case when given.paused then now() end,
    wake_at = coalesce(given.wake_at, (
        select queue.start_by
            - greatest(5000, coalesce(queue.tolerance_ms, tasks.tolerance_ms) / 10) * interval '1 millisecond'
        from tasks
        where tasks.id = given.id and coalesce(queue.tolerance_given, tasks.tolerance_given) and not given.paused
    )),
    avoid_node = case when given.outcome in (2, 5, 7, 8) then queue.node else queue.avoid_node end,
    node = null, boot = null, epoch = null, started_at = null
from given
where queue.ctid = given.place and queue.id + 0 = given.id
returning queue.id, queue.tenant, queue.lane, queue.urgency, queue.start_by, queue.cap_ms, queue.shape, queue.work,
    queue.version, queue.concurrency_key, queue.concurrency_limit, queue.concurrency_global,
    queue.preemptible, queue.avoid_node, queue.wake_at, queue.state,
    queue.wake_at <= now() as due
