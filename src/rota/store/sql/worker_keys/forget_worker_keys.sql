delete from worker_keys where id in (
    select id from worker_keys where expires_at < now() - interval '30 days' order by expires_at limit $1 for update skip locked
)
