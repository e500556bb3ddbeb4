create table if not exists schema_migrations (
    number integer primary key,
    name text not null,
    applied_at timestamptz not null default now()
)
