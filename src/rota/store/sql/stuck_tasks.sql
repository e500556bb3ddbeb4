-- The watchdog (R56): live tasks that nothing would ever move again. Always empty.
select queue.id, queue.state
from queue
where (queue.state = 1 and not exists (select from edges where edges.child = queue.id))
    or (queue.state = 2 and queue.wake_at is null)
    or (queue.state = 4 and (queue.node is null or queue.boot is null))
limit 1000
