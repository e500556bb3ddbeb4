select extract(epoch from min(next_at) - clock_timestamp())::float8 from schedules
where next_at is not null and not paused
