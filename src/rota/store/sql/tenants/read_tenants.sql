select id, name, plan, created_at, trusted, paused, support, share_control from tenants order by id
