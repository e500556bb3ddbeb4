select {token_columns}, tokens.secret_hash, {plan_columns}, tenants.trusted
from tokens join tenants on tenants.id = tokens.tenant join plans on plans.name = tenants.plan
where tokens.public_id = $1 and tokens.revoked_at is null
    and (tokens.expires_at is null or tokens.expires_at > now())
