delete from recovery_codes where principal = $1
