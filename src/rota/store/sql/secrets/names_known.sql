select name from secrets where tenant = $1 and name = any($2)
