delete from progress where task in (
select task from progress where not exists (select from queue
    where queue.id = progress.task and queue.attempt = progress.attempt and queue.state = {RUNNING})
limit $1 for update skip locked)
