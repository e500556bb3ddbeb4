select key_id, count(*) from secrets group by key_id
