-- Whether a live server was started before the migration that precedes $1 was applied.
select exists (
    select from servers
    where seen_at > now() - interval '1 minute'
        and started_at < (select max(applied_at) from schema_migrations where number < $1)
)
