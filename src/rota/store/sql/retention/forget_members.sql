with seen as materialized (
    select task from graph_tasks where task > $1 order by task limit $2),
gone as (
    delete from graph_tasks where task in (
        select seen.task from seen where not exists (select from tasks where tasks.id = seen.task)))
select count(*) as seen, max(task) as last from seen
