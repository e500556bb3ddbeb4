-- The present members of a graph after the member $3 (0: from the first), in topological order, each with the number of its
-- latest attempt. A member that was run again is replaced by its new run. Lateral: see read_graph_members.
select member.task as id, member.name, member.item,
    greatest(0, queue.attempt, (select max(attempts.number) from attempts where attempts.task = member.task)) as attempt
from graph_tasks member
left join lateral (select queue.attempt from queue where queue.id = member.task offset 0) queue on true
where member.graph = $1 and member.tenant = $2
    and ($3 = 0 or (member.place, member.task) > (
        select last.place, last.task from graph_tasks last where last.graph = $1 and last.task = $3))
    and not exists (
        select from reruns join graph_tasks again on again.task = reruns.rerun and again.graph = member.graph
        where reruns.task = member.task
    )
order by member.place, member.task
limit $4
