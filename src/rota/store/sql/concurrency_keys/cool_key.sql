insert into concurrency_keys (tenant, key, cooled_until)
values ($1, $2, case when $3 > 0 then now() + $3 * interval '1 millisecond' end)
on conflict (tenant, key) do update set cooled_until = excluded.cooled_until
returning cooled_until
