-- Puts a new run, whose row in `tasks` the transaction has just written, into the queue.
insert into queue (id, state, start_by, wake_at, pool, tenant, lane, urgency, cap_ms, shape, work, attempts, concurrency_key,
    concurrency_limit, preemptible, concurrency_global, expires, leeway_ms)
select id, {READY}, start_by, urgent_at, pool, tenant, lane, -priority, cap_ms, shape, $2, attempts, concurrency_key,
    concurrency_limit, preemptible, concurrency_global, expires, leeway_ms
from tasks where id = $1
returning {queue/ready_columns}, queue.pool, false as due, extract(epoch from queue.wake_at - now())::float8 as wakes_in
