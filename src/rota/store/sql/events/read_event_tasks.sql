-- The details of the attempts that events name. A running attempt is only in the queue.
select given.position, given.task, given.number, task.name, task.user_name, task.tags, task.tolerance_given, task.schedule, task.scheduled_for,
    ended.state, ended.outcome, ended.exit_code, ended.reason, ended.failure, ended.ended_at,
    (select nodes.name from nodes where nodes.id = coalesce(ended.node, live.node)) as node
from unnest($1::bigint[], $2::smallint[]) with ordinality as given (task, number, position)
cross join lateral (
    select tasks.name, tasks.user_name, tasks.tags::text as tags, tasks.scheduled_for,
        -- A tolerance may be given in a lane that does not promote: `tolerance_given` is about promotion.
        tasks.tolerance_given or tasks.tolerance_source in ({ToleranceSource.GIVEN}, {ToleranceSource.CATEGORY})
            or exists (select from task_edits where task_edits.task = given.task and task_edits.tolerance) as tolerance_given,
        (select schedules.name from schedules where schedules.id = tasks.schedule) as schedule
    from tasks where tasks.id = given.task and tasks.id between $3 and $4 and tasks.tenant = $5 offset 0
) task
left join lateral (
    select attempts.state, attempts.outcome, attempts.exit_code, attempts.reason, attempts.node, attempts.ended_at,
        attempts.failure::text as failure
    from attempts
    where attempts.task = given.task and attempts.number = given.number and attempts.task between $3 and $4 offset 0
) ended on true
left join lateral (
    select queue.node from queue where queue.id = given.task and queue.attempt = given.number offset 0
) live on true
order by given.position
