select exists (select from log_chunks where task >= $1 and task < $2
and not exists (select from queue where queue.id = log_chunks.task))
