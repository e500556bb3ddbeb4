update long_logs set look_at = now() + make_interval(secs => $2) where (task, attempt) in (
select task, attempt from long_logs where look_at <= now()
order by look_at limit $1 for update skip locked)
returning task, attempt
