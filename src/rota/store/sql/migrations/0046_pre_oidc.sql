-- Sign-ins that are on their way to the provider and back: each is used once, by the browser that began it.
create table oidc_sign_ins (
    state_hash bytea primary key,
    browser_hash bytea not null, -- of the cookie of that browser
    nonce text not null,
    verifier text not null,
    redirect_uri text not null,
    next text not null, -- the page that the person wanted
    began_at timestamptz not null default now()
);
create index oidc_sign_ins_began on oidc_sign_ins (began_at);

-- Whom a provider means by a subject. A user may have several, for instance while a team moves to another provider.
create table oidc_identities (
    id integer generated always as identity primary key,
    issuer text not null,
    subject text not null,
    principal integer not null references principals (id) on delete cascade,
    linked_at timestamptz not null default now(),
    confirmed_at timestamptz not null default now(), -- when the provider last spoke for it
    key_id text, -- the refresh token, sealed; null: there is none
    wrapped_key bytea,
    sealed_token bytea,
    refresh_at timestamptz, -- one server node at a time moves it on, and then asks the provider
    unique (issuer, subject),
    check (num_nulls(key_id, wrapped_key, sealed_token, refresh_at) in (0, 4))
);
create index oidc_identities_of_principal on oidc_identities (principal);
create index oidc_identities_due on oidc_identities (refresh_at) where refresh_at is not null;

-- None of this is for the rights of a tenant.
revoke all on oidc_sign_ins, oidc_identities from public, rota_tenant;
