tasks.name = $5
