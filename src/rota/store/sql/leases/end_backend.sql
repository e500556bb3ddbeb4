select count(pg_terminate_backend(pid)) from pg_stat_activity
where pid = $1 and application_name like 'rota fenced %'
