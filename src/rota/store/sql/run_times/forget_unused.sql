delete from run_times where learned_at < now() - interval '30 days'
