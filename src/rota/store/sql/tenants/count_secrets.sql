select count(*) from secrets where tenant = $1
