-- The slow poll of dependencies: dependents with a resolved edge, in id order, past a cursor that goes round.
select distinct child from edges
where child_pool = $1 and parent_state is not null and child > $2
order by child
limit $3
