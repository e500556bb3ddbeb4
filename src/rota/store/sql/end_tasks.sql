-- Ends locked tasks, in any final state. A task that failed leaves a dead letter.
with given as materialized (
    select found.place, given.*
    from unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::smallint[], $5::bigint[], $6::bigint[],
        $7::bigint[], $8::integer[], $9::json[], $10::text[], $11::bigint[], $12::bigint[], $13::json[], $14::timestamptz[],
        $15::bigint[])
        as given (id, number, state, outcome, run_us, cpu_ms, memory, exit_code, failure, reason, log_bytes, log_dropped,
            result, ended_at, written)
    cross join lateral (select queue.ctid as place from queue where queue.id = given.id for update) found
),
ended as (
    delete from queue using given where queue.ctid = given.place and queue.id + 0 = given.id
    returning queue.id, queue.tenant, queue.node, queue.concurrency_global, given.number, given.state, given.outcome, given.run_us, given.cpu_ms,
        given.memory, given.exit_code, given.failure, given.reason, given.log_bytes, given.log_dropped, given.result,
        given.ended_at, given.written
),
kept as (
    insert into attempts (task, number, tenant, state, outcome, node, started_at, ended_at, run_us, cpu_ms,
        peak_memory_bytes, exit_code, failure, reason, log_bytes, log_dropped_bytes, result, written_bytes)
    select id, number, tenant, state, outcome, case when number > 0 then node end,
        case when number > 0 then coalesce(ended_at, now()) - run_us * interval '1 microsecond' end,
        coalesce(ended_at, now()), run_us, cpu_ms, memory, exit_code, failure, reason, log_bytes, log_dropped, result,
        written
    from ended
),
dead as (
    insert into dead_letters (task, tenant, reason) select id, tenant, reason from ended where state = 11
),
told as (
    insert into events (tenant, kind, tasks, numbers)
    select tenant, 3, array_agg(id), array_agg(number) from ended group by tenant
)
select id, concurrency_global and number > 0 as place from ended
