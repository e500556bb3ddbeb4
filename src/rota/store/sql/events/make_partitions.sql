select make_event_partition((now() at time zone 'UTC')::date + n) from generate_series(0, 2) n
