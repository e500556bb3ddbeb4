-- The watchdog (R56): live tasks that no event would ever move again. The result must be empty.
select queue.id, queue.state
from queue
where (queue.state = {BLOCKED} and not exists (select from edges where edges.child = queue.id))
    or (queue.state = {DELAYED} and queue.wake_at is null)
    or (queue.state = {RUNNING} and (queue.node is null or queue.boot is null))
limit 1000
