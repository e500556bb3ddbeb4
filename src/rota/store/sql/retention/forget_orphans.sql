-- Dead letters, links, edits and changes of tasks whose range was dropped, at most $1 of each.
with gone_letters as (
    delete from dead_letters where task in (
        select task from dead_letters where task < (select coalesce(min(id), 0) from tasks)
        limit $1 for update skip locked)
),
gone_reruns as (
    delete from reruns where task in (
        select task from reruns where task < (select coalesce(min(id), 0) from tasks)
        limit $1 for update skip locked)
),
gone_changes as (
    delete from task_changes where (task, audit) in (
        select task, audit from task_changes where task < (select coalesce(min(id), 0) from tasks)
        limit $1 for update skip locked)
)
delete from task_edits where task in (
    select task from task_edits where task < (select coalesce(min(id), 0) from tasks)
    limit $1 for update skip locked)
