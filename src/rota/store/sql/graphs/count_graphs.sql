-- Counts $2 new graphs, unless the tenant would have more than its plan allows ($3). Locks the count as insert_graph does.
insert into graph_counts (tenant, graphs) select $1, $2 where $3::bigint is null or $2 <= $3
on conflict (tenant) do update set graphs = graph_counts.graphs + $2
where $3::bigint is null or graph_counts.graphs + $2 <= $3
returning tenant
