select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
where inhparent = 'events'::regclass and relname ~ '^events_[0-9]{8}$'
    and to_date(right(relname, 8), 'YYYYMMDD') + 1 <= (now() at time zone 'UTC')::date - $1::integer
order by relname
