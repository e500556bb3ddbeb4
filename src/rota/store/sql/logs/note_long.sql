insert into long_logs (task, attempt) select * from unnest($1::bigint[], $2::smallint[])
on conflict do nothing
