select bindings.principal, bindings.role, bindings.tenant as tenant_id, tenants.name as tenant_name, bindings.pool,
    bindings.source, bindings.granted_at, bindings.granted_by
from bindings left join tenants on tenants.id = bindings.tenant
where bindings.principal = any($1::integer[]) order by bindings.principal, bindings.id
