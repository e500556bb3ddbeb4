update tenants set support = $2 where name = $1
returning id, name, plan, created_at, trusted, paused, support
