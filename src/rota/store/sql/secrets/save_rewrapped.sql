update secrets set key_id = $3, wrapped_key = $4
where tenant = $1 and name = $2 and wrapped_key = $5 returning name
