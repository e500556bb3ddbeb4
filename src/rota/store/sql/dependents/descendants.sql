-- The tasks that depend on some tasks, directly or not, nearest first. The limit ends the walk.
with recursive found (id) as (
    select unnest($1::bigint[])
    union
    select dependent.task from found
    cross join lateral (
        select dependents.task from dependents where dependents.tenant = $2 and dependents.parent = found.id offset 0
    ) dependent
)
select found.id from found limit $3
