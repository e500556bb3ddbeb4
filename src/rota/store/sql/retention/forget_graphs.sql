-- The counts are locked in the order in which admission locks them.
with seen as materialized (
    select id from graphs where id > $1 order by id limit $2),
gone as (
    delete from graphs where id in (
        select seen.id from seen
        where not exists (select from graph_tasks where graph_tasks.graph = seen.id)
            and not exists (select from graphs part where part.within = seen.id))
    returning tenant, schedule),
fewer as materialized (
    select tenant, count(*) as number from gone where schedule is null group by tenant),
locked as materialized (
    select graph_counts.tenant from graph_counts where graph_counts.tenant in (select fewer.tenant from fewer)
    order by graph_counts.tenant for update),
counted as (
    update graph_counts set graphs = greatest(0, graph_counts.graphs - fewer.number)
    from fewer join locked using (tenant) where graph_counts.tenant = fewer.tenant)
select count(*) as seen, max(id) as last from seen
