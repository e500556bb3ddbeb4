select {token_columns}, tokens.secret_hash, {plan_columns}, tenants.trusted, tenants.support, tenants.share_control,
    principals.kind as owner_kind, {accounts/binding_arrays}
from tokens join tenants on tenants.id = tokens.tenant join plans on plans.name = tenants.plan
left join principals on principals.id = tokens.owner
where tokens.public_id = $1 and tokens.revoked_at is null
    and (tokens.expires_at is null or tokens.expires_at > now()) and principals.disabled_at is null
