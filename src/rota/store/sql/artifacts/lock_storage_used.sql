-- The bytes that the tenant stores; nobody else stores any until the transaction ends.
insert into storage_counts (tenant, bytes) values ($1, 0)
on conflict (tenant) do update set bytes = storage_counts.bytes
returning bytes
