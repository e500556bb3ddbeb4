select tasks_days, logs_days, events_days, deliveries_days, audit_days from retention
