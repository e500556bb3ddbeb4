insert into reruns (task, tenant, rerun) values ($1, $2, $3) on conflict do nothing returning rerun
