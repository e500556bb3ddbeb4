select key_id, count(*) from second_factors group by key_id
