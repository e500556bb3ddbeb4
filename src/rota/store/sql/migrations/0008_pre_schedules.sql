-- Recurring work. A schedule's cursor is `next_at`, the next instant to become a run; an instant is in `occurrences` once,
-- as a run or as a skip with its reason, or inside the range of a skip (`instant` to before `until`).

create table schedules (
    id bigint generated always as identity primary key,
    tenant integer not null references tenants (id),
    name text not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
    user_name text not null, -- whose tasks they will be
    rule_kind text not null,
    rule_text text not null,
    zone text not null,
    anchor timestamptz,
    request json not null, -- {"tasks": […]}: what every run submits
    missed text not null check (missed in ('skip', 'once', 'all')),
    missed_limit integer not null check (missed_limit between 1 and 1000),
    overlap text not null check (overlap in ('allow', 'skip', 'queue', 'replace')),
    jitter_ms bigint not null default 0 check (jitter_ms >= 0),
    at_most integer check (at_most > 0),
    ends_at timestamptz,
    max_runs integer check (max_runs > 0),
    runs integer not null default 0,
    paused boolean not null default false,
    next_at timestamptz, -- null: there is none any more
    moved_from timestamptz, -- next_at was moved by hand: the rule goes on after this instant
    previous_at timestamptz, -- the instant before next_at, where its interval begins
    last_tasks bigint[] not null default '{}', -- of the latest run
    version integer not null default 1,
    created_at timestamptz not null default now(),
    changed_at timestamptz not null default now(),
    unique (tenant, name)
) with (fillfactor = 70);
create index schedules_due on schedules (next_at, id) where next_at is not null and not paused;

create table occurrences (
    schedule bigint not null,
    instant timestamptz not null,
    until timestamptz, -- of a skip: all instants before this one too
    tenant integer not null,
    trigger_kind smallint not null,
    tasks bigint[], -- null: skipped
    reason text, -- why it was skipped
    at timestamptz not null default now(),
    primary key (schedule, instant),
    check ((tasks is null) = (reason is not null) or until is not null)
);

alter table tasks add column schedule bigint, add column scheduled_for timestamptz;

do $$
declare name text;
begin
    foreach name in array array['schedules', 'occurrences'] loop
        execute format('alter table %I enable row level security', name);
        execute format('create policy own on %I to rota_tenant using (tenant = current_tenant())', name);
    end loop;
end $$;
grant select, insert, update, delete on schedules, occurrences to rota_tenant;
