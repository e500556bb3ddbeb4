-- The attempts that a new leader inherits: authorised in this pool and not yet settled.
select queue.id, queue.attempt, queue.tenant, queue.shape, queue.node, queue.boot, queue.grace_ms, queue.work,
    queue.concurrency_key, queue.concurrency_limit, queue.concurrency_global, queue.cancel_requested,
    queue.cap_ms, queue.lane, queue.preemptible, queue.started_at
from queue where queue.pool = $1 and queue.state = {RUNNING}
