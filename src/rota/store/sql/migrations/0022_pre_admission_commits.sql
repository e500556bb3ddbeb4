-- One row per admission transaction, as `flights` before. A lost reply to COMMIT is resolved by inserting the row again.
create table admission_commits (
    id uuid primary key,
    created_at timestamptz not null default now()
);
