-- Ends attempts that succeeded; other requests made meanwhile no longer matter. Works on the rows that the delete returns,
-- so a repeated or superseded result changes nothing. `fenced` is 0 if this leader's term is over.
-- Lateral and ctid: see start_attempts. A row that is being edited at this moment does not come back: the caller locks it
-- and checks again.
-- An array may be empty if every value is the usual one: unnest fills it with nulls. `ended_at` is in microseconds since
-- 1970, because a number is far cheaper to send than a timestamp. `places`: tasks whose key is counted across pools.
with fence as materialized (
    select 1 from leases where pool = $1 and epoch = $2 and holder = $3 for key share
),
given as materialized (
    select found.location, given.*
    from unnest($4::bigint[], $5::smallint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::json[], $10::integer[],
        $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[])
        as given (id, attempt, boot, run_us, ended_at, result, exit_code, cpu_ms, memory, log_bytes, log_dropped, written,
            frozen_us, saving_us)
    cross join lateral (
        select queue.ctid as location from queue
        where queue.id = given.id and queue.attempt = given.attempt and queue.boot = given.boot and queue.state = {RUNNING}
        offset 0
    ) found
    where exists (select from fence)
),
ended as (
    delete from queue using given
    where queue.ctid = given.location and queue.id + 0 = given.id and queue.attempt = given.attempt
        and queue.boot = given.boot and queue.state = {RUNNING}
    returning queue.id, queue.tenant, queue.attempt, queue.node, queue.concurrency_global,
        coalesce(queue.ran_lane, queue.lane) as lane, given.run_us, given.cpu_ms,
        given.memory, given.exit_code, given.result, given.log_bytes, given.log_dropped, given.written,
        given.saving_us, given.frozen_us,
        coalesce(timestamptz 'epoch' + given.ended_at * interval '1 microsecond', now()) as ended_at
),
kept as (
    insert into attempts (task, number, tenant, state, outcome, node, started_at, ended_at, run_us, cpu_ms,
        peak_memory_bytes, exit_code, result, log_bytes, log_dropped_bytes, written_bytes, lane, frozen_us)
    select id, attempt, tenant, {DONE}, {Outcome.OK}, node,
        ended_at - (run_us + coalesce(saving_us, 0) + coalesce(frozen_us, 0)) * interval '1 microsecond', ended_at, run_us,
        coalesce(cpu_ms, 0), coalesce(memory, 0), exit_code, result, coalesce(log_bytes, 0), coalesce(log_dropped, 0),
        coalesce(written, 0), lane, nullif(frozen_us, 0)
    from ended
    returning task
),
event as (
    insert into events (tenant, kind, tasks, numbers)
    select tenant, {Event.ENDED}, array_agg(id), array_agg(attempt) from ended group by tenant
)
select (select count(*) from fence) as fenced, array(select task from kept) as tasks,
    array(select id from ended where concurrency_global) as places
