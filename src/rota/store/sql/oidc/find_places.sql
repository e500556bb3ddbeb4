-- Those of the tenants and pools that exist.
select (select array_agg(id order by id) from tenants where name = any($1::text[])) as tenant_ids,
    (select array_agg(name order by id) from tenants where name = any($1::text[])) as tenants,
    (select array_agg(name order by name) from pools where name = any($2::text[])) as pools
