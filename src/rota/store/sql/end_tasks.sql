-- Ends locked or waiting tasks in a state other than done. A task that failed leaves a dead letter.
with given as (
    select * from unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::smallint[], $5::bigint[], $6::bigint[],
        $7::bigint[], $8::integer[], $9::json[], $10::text[], $11::bigint[], $12::bigint[])
        as given (id, number, state, outcome, run_us, cpu_ms, memory, exit_code, failure, reason, log_bytes, log_dropped)
),
ended as (
    delete from queue using given where queue.id = given.id
    returning queue.id, queue.tenant, queue.node, given.number, given.state, given.outcome, given.run_us, given.cpu_ms,
        given.memory, given.exit_code, given.failure, given.reason, given.log_bytes, given.log_dropped
),
kept as (
    insert into attempts (task, number, tenant, state, outcome, node, started_at, run_us, cpu_ms, peak_memory_bytes,
        exit_code, failure, reason, log_bytes, log_dropped_bytes)
    select id, number, tenant, state, outcome, case when number > 0 then node end,
        case when number > 0 then now() - run_us * interval '1 microsecond' end,
        run_us, cpu_ms, memory, exit_code, failure, reason, log_bytes, log_dropped
    from ended
),
dead as (
    insert into dead_letters (task, tenant, reason) select id, tenant, reason from ended where state = 11
)
select id from ended
