-- One at a time, so that their number is exact.
select pg_advisory_xact_lock(7236022)
