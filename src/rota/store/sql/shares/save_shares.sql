insert into shares (pool, tenant, charged) select $1, * from unnest($2::integer[], $3::float8[])
on conflict (pool, tenant) do update set charged = excluded.charged, saved_at = now()
