-- Whether a live server was started before the migration that precedes $1 was applied. Read as JSON, `left_at` may be a
-- column that a later migration adds.
select exists (
    select from servers
    where seen_at > now() - interval '1 minute' and to_jsonb(servers) ->> 'left_at' is null
        and started_at < (select max(applied_at) from schema_migrations where number < $1)
)
