-- Webhooks: who wants to be told of what, where it stands in the log of events, and what is to be delivered. A webhook's
-- signing key is derived from the cluster's secret and `salt`: it is in no column.

create table webhooks (
    id bigint generated always as identity primary key,
    tenant integer not null references tenants (id),
    url text not null check (length(url) <= 2000),
    types text[], -- null: all
    task bigint,
    schedule text,
    name text,
    tag_name text,
    tag_value text,
    salt bytea not null check (octet_length(salt) = 16),
    created_by text not null,
    created_at timestamptz not null default now(),
    stopped_reason text, -- null: it is told
    -- its place in the tenant's log
    xid bigint not null,
    "row" bigint not null default 0,
    position bigint not null default 0
) with (fillfactor = 70);
create index webhooks_of_tenant on webhooks (tenant, id);

-- The outbox. `next_at` is when to try; whoever tries moves it on first, so that others leave it alone meanwhile.
create table deliveries (
    id bigint generated always as identity primary key,
    webhook bigint not null,
    tenant integer not null,
    message text not null, -- the same on every try
    type text not null,
    body text not null,
    state smallint not null default 1 check (state between 1 and 3), -- waiting, delivered, given up
    tries smallint not null default 0,
    next_at timestamptz not null default now(),
    status integer, -- the latest answer's
    trouble text, -- why the latest try failed
    created_at timestamptz not null default now(),
    tried_at timestamptz,
    unique (webhook, message)
) with (fillfactor = 70);
create index deliveries_due on deliveries (next_at) where state = 1;
create index deliveries_of_webhook on deliveries (webhook, id);
create index deliveries_old on deliveries (created_at);

do $$
declare name text;
begin
    foreach name in array array['webhooks', 'deliveries'] loop
        execute format('alter table %I enable row level security', name);
        execute format('create policy own on %I to rota_tenant using (tenant = current_tenant())', name);
    end loop;
end $$;
grant select, insert, update, delete on webhooks, deliveries to rota_tenant;
