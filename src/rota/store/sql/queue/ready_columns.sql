queue.id, queue.tenant, queue.lane, queue.urgency, queue.start_by, queue.cap_ms, queue.shape, queue.work, queue.version,
    queue.concurrency_key, queue.concurrency_limit, queue.concurrency_global, queue.preemptible, queue.avoid_node,
    queue.wake_at, queue.state, queue.leeway_ms
