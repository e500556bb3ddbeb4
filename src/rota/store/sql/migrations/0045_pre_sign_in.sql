-- How users sign in.

create table passwords (
    principal integer primary key references principals (id) on delete cascade,
    hash text not null, -- Argon2id with its parameters
    changed_at timestamptz not null default now()
);

-- The secret that an app counts codes from, sealed by a master key.
create table second_factors (
    principal integer primary key references principals (id) on delete cascade,
    key_id text not null,
    wrapped_key bytea not null,
    ciphertext bytea not null,
    made_at timestamptz not null default now(),
    confirmed_at timestamptz, -- null: no code was entered yet, so it does not count
    last_step bigint not null default 0 -- of the last code that was good: none is good twice
);

create table recovery_codes (
    principal integer not null references principals (id) on delete cascade,
    hash bytea not null,
    used_at timestamptz,
    primary key (principal, hash)
);

-- Links that sign somebody in once: of the first administrator, and of invitations.
create table sign_in_links (
    id bigint generated always as identity primary key,
    hash bytea not null unique,
    principal integer references principals (id) on delete cascade, -- null: whoever opens it becomes the first administrator
    created_at timestamptz not null default now(),
    created_by text not null default '',
    ends_at timestamptz not null,
    used_at timestamptz
);
create index sign_in_links_principal on sign_in_links (principal);

-- Somebody gave the right password and still has to prove or to set up a second factor. It is no session yet.
create table sign_in_steps (
    hash bytea primary key,
    principal integer not null references principals (id) on delete cascade,
    account text not null, -- the name that was typed
    enrol boolean not null, -- there is no second factor yet, and a role asks for one
    ends_at timestamptz not null
);

-- Attempts, over all server nodes. Of an account or device: failures and until when it waits. Of the others: a rate.
create table sign_in_attempts (
    key text primary key,
    failures integer not null default 0,
    free_at timestamptz not null
);
create index sign_in_attempts_free on sign_in_attempts (free_at);

-- Whose password is not enough: users with one of these roles, anywhere.
create table sign_in_rules (
    one boolean primary key default true check (one),
    second_factor_roles text[] not null default '{}'
);
insert into sign_in_rules default values;

-- None of this is for the rights of a tenant.
revoke all on passwords, second_factors, recovery_codes, sign_in_links, sign_in_steps, sign_in_attempts, sign_in_rules
    from public, rota_tenant;
