delete from schedules where id = $1
