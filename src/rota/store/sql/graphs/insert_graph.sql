-- Counts the graph and inserts it, unless the tenant has as many as its plan allows ($7). The count's row is locked until
-- the transaction ends, so that concurrent requests together can't exceed the limit.
with place as (
    insert into graph_counts (tenant, graphs) values ($2, 1)
    on conflict (tenant) do update set graphs = graph_counts.graphs + 1
    where $7::bigint is null or graph_counts.graphs < $7
    returning tenant
)
insert into graphs (id, tenant, name, user_name, is_array, rerun_of, within, from_task)
select $1, $2, $3, $4, $5, $6, $8, $9 from place
returning id
