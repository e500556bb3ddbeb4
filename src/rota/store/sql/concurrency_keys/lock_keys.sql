-- Locks keys in order, and inserts missing ones, so that only one transaction at a time counts the places of a key. The
-- condition that never holds leaves the row unchanged but locks it.
insert into concurrency_keys (tenant, key)
select * from unnest($1::integer[], $2::text[])
on conflict (tenant, key) do update set cooled_until = null where false
