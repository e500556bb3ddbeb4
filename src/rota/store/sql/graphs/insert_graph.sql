insert into graphs (id, tenant, name, user_name, is_array, rerun_of) values ($1, $2, $3, $4, $5, $6)
