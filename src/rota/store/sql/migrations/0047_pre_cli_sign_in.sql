-- Logins: a program (`rota login`) waits until a user allows it a token. One in a browser is a row from the user's approval
-- until its code is exchanged, at most a minute; one with a device code, from its start. Codes are kept as hashes only.
-- Principals and tokens are named without foreign keys: their removal must not wait for a row that is being exchanged.
create table cli_logins (
    id bigint generated always as identity primary key,
    kind text not null check (kind in ('browser', 'device')),
    code_hash bytea not null unique, -- of what the program exchanges for the token
    challenge text, -- of PKCE; in a browser only
    user_code_hash bytea unique, -- of what people type; with a device code only
    machine text not null, -- the token's name is made of it
    lasts interval not null, -- the token
    tenant_name text, -- of the one that the token is for; null: the one that the approving session looks at
    address inet, -- where the program asked from
    network cidr, -- the part of the address that counts as one asker
    agent text not null default '',
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    polled_at timestamptz,
    poll_seconds integer not null default 5,
    decided_at timestamptz,
    allowed boolean,
    principal integer, -- who decided
    used_at timestamptz, -- the code, for a token or in vain: it is good once
    token integer -- that was made
);
create index cli_logins_ends on cli_logins (expires_at);
create index cli_logins_pending on cli_logins (network) where decided_at is null;

revoke all on cli_logins from public, rota_tenant;
