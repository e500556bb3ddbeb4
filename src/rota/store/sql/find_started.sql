-- After a lost reply to a start: which of these did it authorise? Locking waits for the transaction in doubt.
select queue.id, queue.attempt, queue.tenant, queue.shape, queue.cap_ms, queue.grace_ms,
    tasks.kind, tasks.name, tasks.spec, tasks.idempotency_key
from unnest($2::bigint[], $3::integer[], $4::integer[], $5::bigint[]) as asked (id, version, node, boot)
join queue on queue.id = asked.id and queue.version = asked.version + 1 and queue.state = 4 and queue.epoch = $1
    and queue.node = asked.node and queue.boot = asked.boot
join tasks on tasks.id = queue.id and tasks.id = any($2)
order by queue.id
for update of queue
