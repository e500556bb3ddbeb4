-- Places of this pool whose task runs no more. There are none: a place goes in the transaction that ends its attempt.
-- Should that ever fail, it is not lost for good. A start and its place are one transaction: both are seen, or neither.
delete from key_places
where key_places.pool = $1
    and not exists (select from queue where queue.id = key_places.task and queue.state = {RUNNING} offset 0)
returning key_places.task
