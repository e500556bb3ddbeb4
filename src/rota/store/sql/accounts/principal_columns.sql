principals.id, principals.kind, principals.name, principals.tenant as tenant_id,
(select tenants.name from tenants where tenants.id = principals.tenant) as tenant_name, principals.email,
principals.created_at, principals.created_by, principals.disabled_at, principals.signed_in_at
