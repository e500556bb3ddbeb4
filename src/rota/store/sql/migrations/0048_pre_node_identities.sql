-- Nodes prove who they are: each has a key pair, and the public half is bound to its name and pool when it joins with the
-- token of a worker key. Tokens of the role worker speak for nodes without an identity, where the pool still takes these.
create table worker_keys (
    id integer generated always as identity primary key,
    public_id text not null unique,
    secret_hash bytea not null,
    pool smallint not null references pools (id),
    uses integer not null check (uses between 1 and 10000),
    used integer not null default 0,
    created_at timestamptz not null default now(),
    created_by text not null default '',
    expires_at timestamptz not null,
    revoked_at timestamptz,
    used_at timestamptz,
    used_from inet,
    constraint never_more_nodes_than_uses check (used between 0 and uses)
);
create index worker_keys_ends on worker_keys (expires_at);

-- A row is never changed but for `proved_at`: another key is another row, so that what names a row ends with it.
create table node_keys (
    id integer generated always as identity primary key,
    pool smallint not null references pools (id),
    name text not null,
    public_key bytea not null unique check (octet_length(public_key) = 32),
    joined_at timestamptz not null default now(),
    joined_with integer, -- the number of the worker key; null: bound by `rota up`, which has the database
    joined_from inet,
    proved_at timestamptz not null default '-infinity', -- when the latest challenge that it answered was made
    unique (pool, name)
);

alter table pools add column identified_nodes boolean not null default false; -- nodes without an identity are refused

revoke all on worker_keys, node_keys from public, rota_tenant;
