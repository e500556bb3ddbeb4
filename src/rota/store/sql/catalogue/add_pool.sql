insert into pools (name, elastic, peak_percent, urgent_kept_percent, running_tasks, isolations, identified_nodes)
values ($1, $2, $3, $4, $5, $6, $7) on conflict (name) do nothing returning {pool_columns}
