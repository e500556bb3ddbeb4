select at from audit_log where id = $1 and ($2::integer is null or tenant = $2)
