insert into run_times (tenant, work, typical_us)
select * from unnest($1::integer[], $2::integer[], $3::bigint[])
on conflict (tenant, work) do update set typical_us = excluded.typical_us, learned_at = now()
