select plans.*, tenants.id as tenant_id, tenants.name as tenant_name, tenants.trusted
from tenants join plans on plans.name = tenants.plan where tenants.id = any($1)
