-- Principals: users, who sign in, and service accounts, which belong to a tenant. What one may do is in its bindings.
create table principals (
    id integer generated always as identity primary key,
    kind text not null check (kind in ('user', 'service')),
    name text not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$'),
    tenant integer references tenants (id), -- of a service account; a user belongs to none
    email text,
    created_at timestamptz not null default now(),
    created_by text not null default '',
    disabled_at timestamptz, -- has no rights since
    signed_in_at timestamptz,
    check ((kind = 'service') = (tenant is not null))
);
create unique index principals_users on principals (lower(name)) where kind = 'user';
create unique index principals_services on principals (tenant, lower(name)) where kind = 'service';
create unique index principals_emails on principals (lower(email)) where email is not null;

-- A role at a tenant, at a pool, or everywhere (neither is named).
create table bindings (
    id integer generated always as identity primary key,
    principal integer not null references principals (id) on delete cascade,
    role text not null check (role in ('viewer', 'member', 'admin', 'operator')),
    tenant integer references tenants (id),
    pool text references pools (name),
    source text not null default 'local' check (source in ('local', 'oidc')), -- those of a provider come and go with its groups
    granted_at timestamptz not null default now(),
    granted_by text not null default '',
    unique nulls not distinct (principal, role, tenant, pool, source),
    check (role = 'operator' or pool is null),
    check (role <> 'operator' or tenant is null)
);

-- The payload of a tenant's tasks is shown to roles that hold everywhere only if the tenant's administrator allows it.
alter table tenants add column support boolean not null default false;

-- A token without an owner was made before there were principals: it has the rights of its role.
alter table tokens
    add column owner integer references principals (id) on delete cascade,
    add column name text check (name ~ '^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$'),
    add column scopes text[], -- null: all that its role has
    add column names text[], -- globs: only tasks with these names
    add column own boolean not null default false, -- only the tasks of its own user
    add column addresses cidr[], -- only from these networks
    add column created_by text not null default '',
    add column used_at timestamptz, -- within five minutes
    add column used_from inet,
    add column replaced_by integer;
create unique index tokens_names on tokens (tenant, user_name, name) where name is not null and revoked_at is null;
create index tokens_of_owner on tokens (owner) where owner is not null;

-- A session of a signed-in user, on whichever server node: the cookie's hash finds it.
create table sessions (
    id bigint generated always as identity primary key,
    hash bytea not null unique,
    principal integer not null references principals (id) on delete cascade,
    tenant integer not null references tenants (id), -- the one that it looks at
    via text not null check (via in ('password', 'oidc', 'link')),
    created_at timestamptz not null default now(),
    seen_at timestamptz not null default now(), -- within a minute
    proved_at timestamptz not null default now(), -- when the user last proved who they are
    ends_at timestamptz not null,
    ended_at timestamptz,
    address inet,
    agent text not null default ''
);
create index sessions_of_principal on sessions (principal) where ended_at is null;
create index sessions_ends on sessions (ends_at);

drop table users; -- never written
