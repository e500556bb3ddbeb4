tenant = $5
