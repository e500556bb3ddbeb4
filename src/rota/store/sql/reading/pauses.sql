select pools.paused as pool, tenants.paused as tenant from pools, tenants where pools.id = $1 and tenants.id = $2
