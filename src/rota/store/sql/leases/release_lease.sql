update leases set expires_at = clock_timestamp() where pool = $1 and epoch = $2 and holder = $3
