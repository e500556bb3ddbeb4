-- Writes the final state of parents into their edges. Runs after the delete, so a dependent admitted meanwhile is seen.
update edges set parent_state = $2
where edges.parent = any($1) and edges.parent_state is null
returning edges.child, edges.child_pool
