-- Deletes places of this pool without a running task. There should be none, as a place is deleted in the transaction that
-- ends its attempt; this is the safety net. A start and its place are one transaction, so both are seen or neither.
delete from key_places
where key_places.pool = $1
    and not exists (select from queue where queue.id = key_places.task and queue.state = {RUNNING} offset 0)
returning key_places.task
