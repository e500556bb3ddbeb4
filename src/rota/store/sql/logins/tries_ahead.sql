select extract(epoch from arrival - clock_timestamp())::float8 from code_tries where who = $1
