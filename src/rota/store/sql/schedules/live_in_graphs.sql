select whole.id as graph, graph_tasks.task
from (
    select given.id, given.id as part from unnest($1::bigint[]) as given (id)
    union all
    select graphs.within, graphs.id from graphs where graphs.within = any($1)
) whole
join graph_tasks on graph_tasks.graph = whole.part
cross join lateral (select from queue where queue.id = graph_tasks.task offset 0) live
order by 1, 2
