-- Artifacts: what people upload and tasks leave behind. The bytes are in the object store; these rows say whose they are.
-- An object's key is made anew for every upload and never used twice, so removing one can't hit a later upload of the
-- same bytes.

create table artifacts (
    id bigint generated always as identity, -- order of arrival: pages go by it
    tenant integer not null,
    sha256 bytea not null check (octet_length(sha256) = 32),
    size_bytes bigint not null check (size_bytes >= 0),
    name text not null,
    object_key text not null unique,
    created_by text not null,
    created_at timestamptz not null default now(),
    kept_until timestamptz, -- null: for ever
    primary key (tenant, sha256)
);
create unique index artifacts_newest on artifacts (tenant, id);
create index artifacts_expiring on artifacts (kept_until) where kept_until is not null;

-- What attempts stored: outputs (the bytes are the tenant's artifact of that digest), checkpoints and long logs.
create table attempt_objects (
    id bigint generated always as identity primary key,
    tenant integer not null,
    task bigint not null,
    attempt smallint not null,
    purpose text not null check (purpose in ('output', 'checkpoint', 'log')),
    name text not null,
    sha256 bytea not null check (octet_length(sha256) = 32),
    size_bytes bigint not null check (size_bytes >= 0),
    object_key text unique, -- null: the artifact's object
    created_at timestamptz not null default now(),
    unique (task, attempt, purpose, name),
    check ((object_key is null) = (purpose = 'output'))
);
create index attempt_objects_of_tenant on attempt_objects (tenant);
create index attempt_objects_by_age on attempt_objects (purpose, created_at);

-- Objects that may exist although no row above names them: uploads under way, and what was removed. Whatever dies in
-- between, the sweeper finds them here; it never has to list the store.
create table loose_objects (
    object_key text primary key,
    remove_at timestamptz not null
);
create index loose_objects_due on loose_objects (remove_at);

alter table plans add column storage_bytes bigint check (storage_bytes > 0);

-- The digests of the artifacts a task names. Its attempts may read these and no others.
alter table tasks add column artifacts bytea[];
create index tasks_of_artifact on tasks using gin (artifacts) where artifacts is not null;

do $$
declare name text;
begin
    foreach name in array array['artifacts', 'attempt_objects'] loop
        execute format('alter table %I enable row level security', name);
        execute format('create policy own on %I to rota_tenant using (tenant = current_tenant())', name);
        execute format('grant select on %I to rota_tenant', name);
    end loop;
end $$;
