-- One row; of a tenant ($2), if one is given.
select {row_columns}, tenants.name as tenant_name
from audit_log left join tenants on tenants.id = audit_log.tenant
where audit_log.id = $1 and ($2::integer is null or audit_log.tenant = $2)
