delete from sign_in_steps where hash = $1 and ends_at > now() returning principal
