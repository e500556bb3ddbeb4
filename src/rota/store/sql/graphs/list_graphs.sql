-- The newest graphs of a tenant, with their members counted by state. The part `chosen` is a condition on $3 that selects
-- candidates; at most $9 are examined. `reruns`, lateral and `offset 0`: see read_graph_members.
select graph.*, schedules.name as schedule_name, counted.states, counted.counts, counted.ended_at
from (
    select * from (
        select * from graphs where graphs.tenant = $1 and graphs.id < $2 and graphs.id > $11 and {chosen}
        order by graphs.id desc
        limit $9
    ) candidate
    where ($4::text is null or candidate.name = $4) and ($5::boolean is null or candidate.is_array = $5)
        and ($6::text is null or candidate.user_name = $6)
        and ($7::timestamptz is null or candidate.created_at >= $7)
        and ($8::timestamptz is null or candidate.created_at < $8)
    order by candidate.id desc
    limit $10
) graph
left join schedules on schedules.id = graph.schedule
cross join lateral (
    select array_agg(by_state.state) as states, array_agg(by_state.amount) as counts, max(by_state.ended_at) as ended_at
    from (
        select coalesce(queue.state, final.state) as state, count(*) as amount, max(final.ended_at) as ended_at
        from (
            select graph.id as part
            union all
            select inner_graph.id from (
                select graphs.id from graphs where graphs.within = graph.id offset 0
            ) inner_graph
        ) whole
        cross join lateral (
            select graph_tasks.graph, graph_tasks.task from graph_tasks where graph_tasks.graph = whole.part offset 0
        ) member
        left join lateral (select queue.state from queue where queue.id = member.task offset 0) queue on true
        left join lateral (
            select attempts.state, attempts.ended_at from attempts
            where attempts.task = member.task and attempts.state > 0 and queue.state is null
            offset 0
        ) final on true
        where not exists (
            select from reruns join graph_tasks again on again.task = reruns.rerun and again.graph = member.graph
            where reruns.task = member.task
        )
        group by 1
    ) by_state
) counted
order by graph.id desc
