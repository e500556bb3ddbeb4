id, name, elastic, peak_percent, urgent_kept_percent, running_tasks, paused, isolations, identified_nodes
