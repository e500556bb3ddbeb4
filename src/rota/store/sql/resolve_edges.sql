-- Parents that ended: their edges learn how. Runs after the delete, so a child admitted meanwhile is seen.
update edges set parent_state = ended.state
from unnest($1::bigint[], $2::smallint[]) as ended (id, state)
where edges.parent = ended.id and edges.parent = any($1) and edges.parent_state is null
returning edges.child, edges.child_pool
