delete from sign_in_steps where principal = $1
