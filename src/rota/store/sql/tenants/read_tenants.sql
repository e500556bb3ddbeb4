select id, name, plan, created_at, trusted, paused from tenants order by id
