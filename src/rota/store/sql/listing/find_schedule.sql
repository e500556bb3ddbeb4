select id from schedules where tenant = $1 and name = $2
