-- Operations: one change of all tasks that a filter selects, made in batches by any server node. Each batch locks the row of its
-- operation, and moves `before_id` in the transaction of its changes: so no task is changed twice, whichever node dies, and the
-- lock is free again as soon as the connection of a dead node is gone.
create table operations (
    id bigint generated always as identity primary key,
    tenant integer not null references tenants (id),
    user_name text not null,
    verb text not null check (verb in ('cancel', 'hold', 'release', 'retry', 'edit', 'requeue', 'discard')),
    asked json not null, -- the filter as its user wrote it, with times instead of durations
    selection json not null, -- the filter with ids instead of names
    changes json, -- as its user wrote them: of an edit, the new values; of a hold, its reason
    edit json, -- the checked edit
    before_id bigint not null default 9223372036854775807, -- batches go from the newest task to the oldest
    state smallint not null default 1 check (state between 1 and 4), -- running, done, stopped, failed
    expected bigint not null, -- how many tasks matched when it began
    or_more boolean not null, -- the count stopped at its bound
    matched bigint not null default 0,
    changed bigint not null default 0,
    ended bigint not null default 0, -- ended before their turn
    refused bigint not null default 0,
    refusals json not null default '{}', -- reason → how many, and the first ids
    trouble text, -- why it failed
    key_hash bytea, -- of the idempotency key, and of the request that it was used for
    body_hash bytea,
    created_at timestamptz not null default now(),
    worked_at timestamptz not null default now(), -- the end of its last batch; the one that has waited longest is next
    ended_at timestamptz,
    check ((state = 1) = (ended_at is null)),
    check (changed + ended + refused <= matched)
) with (fillfactor = 70);
create index operations_running on operations (worked_at, id) where state = 1;
create index operations_of_tenant on operations (tenant, id);
create index operations_old on operations (ended_at) where state > 1;
create unique index operations_of_key on operations (tenant, key_hash) where key_hash is not null;
alter table operations enable row level security;
create policy own on operations to rota_tenant using (tenant = current_tenant());
grant select on operations to rota_tenant;
