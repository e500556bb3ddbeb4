update tenants set support = $2, share_control = $3 where name = $1
