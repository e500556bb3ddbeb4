insert into reruns (task, tenant, rerun) select task, $2, rerun from unnest($1::bigint[], $3::bigint[])
as given (task, rerun) order by task on conflict do nothing returning task
