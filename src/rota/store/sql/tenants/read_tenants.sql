select id, name, plan, created_at, trusted, paused, support from tenants order by id
