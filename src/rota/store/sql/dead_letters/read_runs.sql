-- All runs of one piece of work, oldest first: the tasks that this task is a rerun of, and the reruns of this task.
with recursive earlier as (
    select tasks.id, tasks.retry_of, 0 as steps from tasks where tasks.id = $1 and tasks.tenant = $2
    union all
    select tasks.id, tasks.retry_of, earlier.steps + 1
    from earlier join tasks on tasks.id = earlier.retry_of
    where tasks.tenant = $2 and earlier.steps < $3
),
later as (
    select reruns.rerun as id, 1 as steps from reruns where reruns.task = $1 and reruns.tenant = $2
    union all
    select reruns.rerun, later.steps + 1 from later join reruns on reruns.task = later.id
    where reruns.tenant = $2 and later.steps < $3
)
select run.id, coalesce(queue.state, final.state) as state, final.reason, final.ended_at
from (select id from earlier union select id from later) run
left join queue on queue.id = run.id
left join lateral (
    select attempts.state, attempts.reason, attempts.ended_at from attempts
    where attempts.task = run.id and attempts.state > 0 offset 0
) final on true
order by run.id
