-- The present members of a graph with states, times and parents. A member that was run again is replaced by its new run,
-- which has the same name and position.
-- Lateral and `offset 0` force one plan, from the members to their rows: otherwise a queue that the statistics call empty
-- would be scanned whole for every member.
select member.task as id, member.name, member.place, member.item, member.parent, task.after_tasks, task.after_rules,
    task.upstream, task.created_at, task.retry_of, coalesce(queue.state, final.state) as state,
    coalesce(queue.started_at, final.started_at) as started_at, final.ended_at, final.run_us,
    coalesce(final.reason, queue.held_reason) as reason,
    final.exit_code
from graph_tasks member
cross join lateral (
    select tasks.after_tasks, tasks.after_rules, tasks.upstream, tasks.created_at, tasks.retry_of from tasks
    where tasks.id = member.task
    offset 0
) task
left join lateral (
    select queue.state, queue.started_at, queue.held_reason from queue where queue.id = member.task
    offset 0
) queue on true
left join lateral (
    select attempts.state, attempts.started_at, attempts.ended_at, attempts.run_us, attempts.reason, attempts.exit_code
    from attempts
    where attempts.task = member.task and attempts.state > 0
    offset 0
) final on true
where member.graph = any(array({graphs/whole})) and member.tenant = $2
    and not exists (
        select from reruns join graph_tasks again on again.task = reruns.rerun and again.graph = member.graph
        where reruns.task = member.task
    )
order by member.place, member.task
