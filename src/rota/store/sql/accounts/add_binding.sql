insert into bindings (principal, role, tenant, pool, source, granted_by) values ($1, $2, $3, $4, $5, $6)
on conflict do nothing returning id
