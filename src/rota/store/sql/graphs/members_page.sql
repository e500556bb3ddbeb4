-- The present members of a graph after the member $3 (0: from the first), in topological order, each with the number of its
-- latest attempt. A member that was run again is replaced by its new run. Lateral: see read_graph_members. Each graph of the
-- whole by its own index: one condition on all of them would sort every member for each page.
select member.task as id, member.name, member.item,
    greatest(0, queue.attempt, (select max(attempts.number) from attempts where attempts.task = member.task)) as attempt
from (
    select own.task, own.name, own.item, own.place
    from ({graphs/whole}) as whole (graph)
    cross join lateral (
        select member.task, member.name, member.item, member.place from graph_tasks member
        where member.graph = whole.graph and member.tenant = $2
            and ($3 = 0 or (member.place, member.task) > (
                select last.place, last.task from graph_tasks last where last.task = $3))
            and not exists (
                select from reruns join graph_tasks again on again.task = reruns.rerun and again.graph = member.graph
                where reruns.task = member.task
            )
        order by member.place, member.task
        limit $4
    ) own
    order by own.place, own.task
    limit $4
) member
left join lateral (select queue.attempt from queue where queue.id = member.task offset 0) queue on true
order by member.place, member.task
