select {columns}, operations.body_hash from operations where operations.tenant = $1 and operations.key_hash = $2
