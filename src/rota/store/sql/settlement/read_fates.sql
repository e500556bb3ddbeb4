-- Blocked dependents of one pool, locked in id order, and what the ends of their parents mean for them.
with locked as materialized (
    select id from queue where id = any($1) and pool = $2 and state = {BLOCKED} order by id for update
)
select locked.id,
    bool_or(edges.parent_state is null) as waits,
    min(edges.parent) filter (where unmet) as culprit,
    (array_agg(edges.parent_state order by edges.parent) filter (where unmet))[1] as culprit_state
from locked
join edges on edges.child = locked.id
-- Whether the parent ended otherwise than the dependent requires.
cross join lateral (
    select edges.parent_state <> case edges.upstream
        when {Upstream.SKIP} then {DONE} when {Upstream.FAILED} then {FAILED} else edges.parent_state end as unmet
) rule
group by locked.id
order by locked.id
