select graphs.*, schedules.name as schedule_name
from graphs left join schedules on schedules.id = graphs.schedule
where graphs.id = $1 and graphs.tenant = $2
