-- The tasks that some tasks depend on, directly or not, nearest first. The limit ends the walk.
with recursive found (id) as (
    select unnest($1::bigint[])
    union
    select parent.id from found
    cross join lateral (
        select tasks.after_tasks from tasks where tasks.id = found.id and tasks.tenant = $2 offset 0
    ) task
    cross join lateral unnest(task.after_tasks) parent (id)
)
select found.id from found limit $3
