-- The parents a blocked task still waits for, and how each stands. `waits` counts all of them.
select edges.parent, coalesce(queue.state, edges.parent_state) as state, count(*) over () as waits
from edges left join queue on queue.id = edges.parent
where edges.child = $1 and edges.parent_state is null
order by edges.parent
limit $2
