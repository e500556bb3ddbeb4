-- A code is good once, also on two server nodes at the same moment.
update second_factors set last_step = $2, confirmed_at = coalesce(confirmed_at, now())
where principal = $1 and last_step < $2 and key_id = $3 and wrapped_key = $4 returning principal
