-- After a lost reply to a start: the starts that it authorised. The lock waits for the transaction in doubt. A cancellation
-- may have raised the version further than the start did.
select found.*, spec.*
from unnest($2::bigint[], $3::integer[], $4::integer[], $5::bigint[]) as asked (id, version, node, boot)
cross join lateral (
    select queue.id, queue.attempt from queue
    where queue.id = asked.id and queue.version > asked.version and queue.state = {RUNNING} and queue.epoch = $1
        and queue.node = asked.node and queue.boot = asked.boot
    for update
) found
cross join lateral (
    select tasks.kind, tasks.name, tasks.spec, tasks.idempotency_key, tasks.after_tasks from tasks
    where tasks.id = asked.id
        and tasks.id between ($2::bigint[])[1] and ($2::bigint[])[cardinality($2::bigint[])]
    offset 0
) spec
