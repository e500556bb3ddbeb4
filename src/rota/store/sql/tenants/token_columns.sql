tokens.id, tokens.public_id, tokens.tenant, tenants.name as tenant_name, tokens.user_name, tokens.role,
tokens.pools, tokens.created_at, tokens.expires_at, tokens.revoked_at, tokens.owner, tokens.name as token_name, tokens.scopes,
tokens.names, tokens.own, tokens.addresses, tokens.created_by, tokens.used_at, host(tokens.used_from) as used_from,
tokens.replaced_by
