select id, name from tenants where id = any($1)
