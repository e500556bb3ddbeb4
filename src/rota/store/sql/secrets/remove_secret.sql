delete from secrets where tenant = $1 and name = $2 returning name
