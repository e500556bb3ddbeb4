with seen as materialized (
    select id from graphs where id > $1 order by id limit $2),
gone as (
    delete from graphs where id in (
        select seen.id from seen
        where not exists (select from graph_tasks where graph_tasks.graph = seen.id)))
select count(*) as seen, max(id) as last from seen
