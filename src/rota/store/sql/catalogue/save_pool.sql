update pools set elastic = $2, peak_percent = $3, urgent_kept_percent = $4, running_tasks = $5,
isolations = $6, identified_nodes = $7 where name = $1
