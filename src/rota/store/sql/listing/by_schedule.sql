tasks.schedule = $5
