-- The parents that a blocked task waits for, and their states. `waits` is their total number.
select edges.parent, coalesce(queue.state, edges.parent_state) as state, count(*) over () as waits
from edges left join queue on queue.id = edges.parent
where edges.child = $1 and edges.parent_state is null
order by edges.parent
limit $2
