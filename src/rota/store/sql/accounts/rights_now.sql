-- The bindings of principals that are not disabled, each for a tenant, and whether that tenant allows support.
select principals.id as principal, tenants.id as tenant, tenants.support, {binding_arrays}
from unnest($1::integer[], $2::integer[]) as wanted (principal, tenant)
join principals on principals.id = wanted.principal and principals.disabled_at is null
join tenants on tenants.id = wanted.tenant
