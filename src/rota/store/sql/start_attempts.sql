-- Authorises a batch of attempts: fence, compare-and-set, and the specs to send, in one statement. Only rows that come
-- back may be sent. `id = any($4)` lets every partition but the right ones be skipped.
with fence as materialized (
    select 1 from leases where pool = $1 and epoch = $2 and holder = $3 for key share
),
asked as (
    select * from unnest($4::bigint[], $5::integer[], $6::integer[], $7::bigint[], $8::integer[])
        as asked (id, version, node, boot, grace_ms)
),
started as (
    update queue
    set state = 4, attempt = queue.attempt + 1, version = queue.version + 1, node = asked.node, boot = asked.boot,
        epoch = $2, grace_ms = asked.grace_ms, started_at = now(), wake_at = null
    from asked, fence
    where queue.id = asked.id and queue.version = asked.version and queue.pool = $1
        and (queue.state = 3 or (queue.state = 2 and queue.wake_at <= now()))
    returning queue.id, queue.attempt, queue.tenant, queue.shape, queue.cap_ms, queue.grace_ms
)
select started.id, started.attempt, started.tenant, started.shape, started.cap_ms, started.grace_ms,
    tasks.kind, tasks.name, tasks.spec, tasks.idempotency_key
from started join tasks on tasks.id = started.id and tasks.id = any($4)
