update second_factors set key_id = $2, wrapped_key = $3 where principal = $1 and wrapped_key = $4 returning principal
