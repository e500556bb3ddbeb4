delete from sign_in_attempts where key = $1
