insert into recovery_codes (principal, hash) select $1, unnest($2::bytea[])
