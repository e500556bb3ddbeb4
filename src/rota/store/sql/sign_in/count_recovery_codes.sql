select count(*) from recovery_codes where principal = $1 and used_at is null
