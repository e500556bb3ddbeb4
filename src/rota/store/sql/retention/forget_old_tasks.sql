-- Deletes old ended tasks and everything about them, among the next attempts in the order of ids.
with seen as materialized (
    select task, number, state, ended_at from attempts where task > $1 order by task, number limit $2
),
old as materialized (
    select task from seen where state > 0 and ended_at < now() - make_interval(days => $3)
),
gone as (
    delete from attempts where attempts.task in (select old.task from old)
),
gone_logs as (
    delete from log_chunks where log_chunks.task in (select old.task from old)
),
gone_tags as (
    delete from task_tags where task_tags.task in (select old.task from old)
),
gone_dependents as (
    delete from dependents
    using (
        select tasks.id, tasks.tenant, parent.id as parent
        from tasks cross join lateral unnest(tasks.after_tasks) parent (id)
        where tasks.id in (select old.task from old) and tasks.after_tasks is not null
    ) own
    where dependents.tenant = own.tenant and dependents.parent = own.parent and dependents.task = own.id
),
gone_dead as (
    delete from dead_letters where dead_letters.task in (select old.task from old)
),
gone_edits as (
    delete from task_edits where task_edits.task in (select old.task from old)
),
gone_members as (
    delete from graph_tasks where graph_tasks.task in (select old.task from old)
),
gone_tasks as (
    delete from tasks where tasks.id in (select old.task from old)
)
select (select count(*) from seen) as seen, (select max(task) from seen) as last, (select count(*) from old) as old,
    (select count(*) from seen where state > 0 and ended_at >= now() - make_interval(days => $3)) as young
