select task, reason, died_at from dead_letters where task = $1 and tenant = $2
