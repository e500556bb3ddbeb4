-- A session that has not ended, its user with bindings, and the tenant that it looks at. $2: how long it may be idle.
select sessions.id, sessions.principal, principals.name as user_name, sessions.proved_at > now() - $3::interval as proved,
    sessions.seen_at < now() - interval '1 minute' as seen_long_ago, sessions.ends_at,
    tenants.id as tenant_id, tenants.name as tenant_name, {tenants/plan_columns}, tenants.trusted, tenants.support, tenants.share_control,
    {binding_arrays}
from sessions
join principals on principals.id = sessions.principal
join tenants on tenants.id = sessions.tenant
join plans on plans.name = tenants.plan
where sessions.hash = $1 and sessions.ended_at is null and sessions.ends_at > now()
    and sessions.seen_at > now() - $2::interval and principals.disabled_at is null
