select * from schedules where tenant = $1 and name > $2 order by name limit $3
