array(select role from bindings where principal = principals.id order by id) as binding_roles,
    array(select tenant from bindings where principal = principals.id order by id) as binding_tenants,
    array(select pool from bindings where principal = principals.id order by id) as binding_pools
