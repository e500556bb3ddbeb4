-- Locks keys in order, whether they are there yet or not: whoever counts places of one counts alone. The condition that
-- never holds keeps the row as it is; it is locked all the same.
insert into concurrency_keys (tenant, key)
select * from unnest($1::integer[], $2::text[])
on conflict (tenant, key) do update set cooled_until = null where false
