tokens.id, tokens.public_id, tokens.tenant, tenants.name as tenant_name, tokens.user_name, tokens.role,
tokens.pools, tokens.created_at, tokens.expires_at, tokens.revoked_at
