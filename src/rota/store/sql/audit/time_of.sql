select at from audit_log where id = $1
