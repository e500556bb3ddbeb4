insert into audit (tenant, user_name, action, target) values ($1, $2, $3, $4)
