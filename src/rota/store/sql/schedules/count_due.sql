select tenant, count(*) as due from schedules
where tenant = any($1) and next_at <= now() and not paused
group by tenant
