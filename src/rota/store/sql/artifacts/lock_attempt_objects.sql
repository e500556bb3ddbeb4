select pg_advisory_xact_lock($1, ($2::bigint % 2147483647)::integer)
