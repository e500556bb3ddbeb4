select tenant, work, typical_us from run_times where learned_at > $1 order by learned_at desc limit $2
