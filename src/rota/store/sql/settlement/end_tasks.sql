-- Ends locked tasks in any final state. A failed task leaves a dead letter.
with given as materialized (
    select found.location, run.*, given.*
    from unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::integer[],
        $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::json[], $14::timestamptz[],
        $15::timestamptz[], $16::json[], $17::smallint[], $18::text[])
        as given (id, number, outcome, run_us, cpu_ms, memory, exit_code, log_bytes, log_dropped, written, saving_us,
            frozen_us, failure, ended_at, heard_at, result, state, reason)
    cross join lateral (
        select queue.ctid as location, queue.node, queue.boot, queue.started_at from queue where queue.id = given.id for update
    ) found
    cross join lateral ({run_time}) run
),
ended as (
    delete from queue using given where queue.ctid = given.location and queue.id + 0 = given.id
    returning queue.id, queue.tenant, queue.node, queue.concurrency_global,
        coalesce(queue.ran_lane, queue.lane) as lane, given.number, given.state, given.outcome, given.began_at, given.ran_us, given.cpu_ms,
        given.memory, given.exit_code, given.failure, given.reason, given.log_bytes, given.log_dropped, given.result,
        given.ended_at, given.written, given.frozen_us
),
kept as (
    insert into attempts (task, number, tenant, state, outcome, node, started_at, ended_at, run_us, cpu_ms,
        peak_memory_bytes, exit_code, failure, reason, log_bytes, log_dropped_bytes, result, written_bytes, lane, frozen_us)
    select id, number, tenant, state, outcome, case when number > 0 then node end,
        case when number > 0 then began_at end, coalesce(ended_at, now()), ran_us, cpu_ms, memory, exit_code, failure, reason, log_bytes, log_dropped, result,
        written, case when number > 0 then lane end, nullif(frozen_us, 0)
    from ended
),
dead as (
    insert into dead_letters (task, tenant, reason) select id, tenant, reason from ended where state = {FAILED}
),
event as (
    insert into events (tenant, kind, tasks, numbers)
    select tenant, {Event.ENDED}, array_agg(id), array_agg(number) from ended group by tenant
)
select id, concurrency_global and number > 0 as place from ended
