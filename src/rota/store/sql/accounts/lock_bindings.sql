-- One change of accounts at a time, so that two administrators can't take the last administrator's role at once.
select pg_advisory_xact_lock(7236021)
