-- Waits for a transaction in doubt. If it was not committed, this row keeps it from committing later.
insert into admission_commits (id) values ($1)
on conflict do nothing
returning id
