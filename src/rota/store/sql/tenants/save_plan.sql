update plans set tasks_per_hour = $2, burst = $3, waiting_tasks = $4, running_cpu_milli = $5,
running_memory_bytes = $6, longest_cap_seconds = $7, tiers = $8, weight = $9, running_tasks = $10,
urgent_percent = $11, network = $12, storage_bytes = $13, tolerance_ms = $14,
schedules = $15, webhooks = $16, tokens = $17, secrets = $18, graphs = $19, log_limit_bytes = $20, cpu_limit = $21
where name = $1
