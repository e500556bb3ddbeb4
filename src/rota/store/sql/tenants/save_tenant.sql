update tenants set plan = $2, trusted = $3 where name = $1
