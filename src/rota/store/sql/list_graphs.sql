-- The newest graphs of a tenant, each with its members counted by state. `reruns`: see read_graph_members.
select graph.*, schedules.name as schedule_name, counted.states, counted.counts, counted.ended_at
from (
    select * from graphs
    where graphs.tenant = $1 and graphs.id < $2 and ($3::text is null or graphs.name = $3)
        and ($4::boolean is null or graphs.is_array = $4)
    order by graphs.id desc
    limit $5
) graph
left join schedules on schedules.id = graph.schedule
cross join lateral (
    select array_agg(by_state.state) as states, array_agg(by_state.amount) as counts, max(by_state.ended_at) as ended_at
    from (
        select coalesce(queue.state, final.state) as state, count(*) as amount, max(final.ended_at) as ended_at
        from graph_tasks member
        left join queue on queue.id = member.task
        left join lateral (
            select attempts.state, attempts.ended_at from attempts
            where attempts.task = member.task and attempts.state > 0
            offset 0
        ) final on true
        where member.graph = graph.id
            and not exists (
                select from reruns join graph_tasks again on again.task = reruns.rerun and again.graph = member.graph
                where reruns.task = member.task
            )
        group by 1
    ) by_state
) counted
order by graph.id desc
