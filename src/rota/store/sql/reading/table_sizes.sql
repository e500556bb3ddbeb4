select relname, greatest(reltuples, 0)::bigint as rows from pg_class
where relname in ('queue', 'dead_letters') and relkind = 'r'
