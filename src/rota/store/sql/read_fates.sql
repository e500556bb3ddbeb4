-- Blocked children of one pool, locked in id order, and what their parents' ends mean for them.
with locked as materialized (
    select id from queue where id = any($1) and pool = $2 and state = 1 order by id for update
)
select locked.id,
    bool_or(edges.parent_state is null) as waits,
    min(edges.parent) filter (where edges.parent_state <> 10 and edges.upstream = 1) as culprit,
    (array_agg(edges.parent_state order by edges.parent)
        filter (where edges.parent_state <> 10 and edges.upstream = 1))[1] as culprit_state
from locked join edges on edges.child = locked.id
group by locked.id
order by locked.id
