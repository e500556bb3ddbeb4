select wanted.task, wanted.attempt from unnest($1::bigint[], $2::integer[]) as wanted (task, attempt)
left join queue on queue.id = wanted.task and queue.attempt = wanted.attempt
    and queue.state = {RUNNING} and not queue.cancel_requested
where queue.id is null
