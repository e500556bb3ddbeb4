select tenants.id as tenant_id, tenants.name as tenant_name, {tenants/plan_columns}, tenants.trusted, tenants.support,
    tenants.share_control
from tenants join plans on plans.name = tenants.plan where tenants.name = $1
