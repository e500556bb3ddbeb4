update retention set tasks_days = $1, logs_days = $2, events_days = $3, deliveries_days = $4, audit_days = $5
