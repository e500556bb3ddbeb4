select count(*) from schedules where tenant = $1
