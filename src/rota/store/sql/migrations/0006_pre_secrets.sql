-- Secrets of tenants. A value is encrypted with a data key of its own, and the data key with the operator's master key,
-- which is never here. Both ciphers authenticate (tenant, name): a row moved or renamed by hand can't be opened.
create table secrets (
    tenant integer not null references tenants (id),
    name text not null check (name ~ '^[A-Za-z_][A-Za-z0-9_]{0,127}$'),
    version integer not null default 1 check (version > 0), -- rises with every new value
    key_id text not null, -- which master key wrapped the data key
    wrapped_key bytea not null,
    ciphertext bytea not null,
    created_by text not null,
    created_at timestamptz not null default now(),
    changed_by text not null,
    changed_at timestamptz not null default now(),
    primary key (tenant, name)
);
create index secrets_of_key on secrets (key_id); -- what a rotation has still to do

alter table secrets enable row level security;
create policy own on secrets to rota_tenant using (tenant = current_tenant());
-- A tenant's connection may write ciphers and never reads them back.
grant select (tenant, name, version, created_by, created_at, changed_by, changed_at) on secrets to rota_tenant;
grant insert, update, delete on secrets to rota_tenant;
