update tenants set paused = $2 where name = $1
returning id, name, plan, created_at, trusted, paused, support, share_control
