plans.name, plans.tasks_per_hour, plans.burst, plans.waiting_tasks, plans.running_cpu_milli, plans.running_memory_bytes,
    plans.longest_cap_seconds, plans.tiers, plans.weight, plans.running_tasks, plans.urgent_percent, plans.network,
    plans.storage_bytes, plans.tolerance_ms, plans.schedules, plans.webhooks, plans.tokens, plans.secrets, plans.graphs,
    plans.log_limit_bytes, plans.cpu_limit
