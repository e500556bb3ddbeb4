-- Names the row ($2) that tells of these tasks ($1), which were changed together.
insert into task_changes (task, audit) select task, $2 from unnest($1::bigint[]) task on conflict do nothing
