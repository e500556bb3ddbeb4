-- Concurrency keys that hold across pools, keys that are cooled down, and how long work usually takes.

alter table tasks add column concurrency_global boolean not null default false;
alter table queue add column concurrency_global boolean not null default false;
-- Only tasks with a key pay for it, and like every index of the queue it does not mention `state`.
create index queue_keys on queue (tenant, concurrency_key) where concurrency_key is not null;

-- One row for each key that is counted across pools, or was cooled down. To take places of a key is to lock its row.
create table concurrency_keys (
    tenant integer not null,
    key text not null,
    cooled_until timestamptz,
    primary key (tenant, key)
);
create index concurrency_keys_cooled on concurrency_keys (cooled_until) where cooled_until is not null;

-- Who holds a place of a key that is counted across pools: one row for each running task, there exactly as long as its
-- queue row says running. Counting these rows is what respects the limit: there is no counter that could drift.
create table key_places (
    task bigint primary key,
    tenant integer not null,
    key text not null,
    pool smallint not null
);
create index key_places_of_key on key_places (tenant, key);
create index key_places_of_pool on key_places (pool);

-- Pools that found no place left, in the order in which they came: whoever waits longest is next.
create table key_waits (
    tenant integer not null,
    key text not null,
    pool smallint not null,
    since timestamptz not null default now(),
    seen_at timestamptz not null default now(), -- a leader that asks no more is not waited for
    primary key (tenant, key, pool)
);

do $$
declare name text;
begin
    foreach name in array array['concurrency_keys', 'key_places', 'key_waits'] loop
        execute format('alter table %I enable row level security', name);
        execute format('create policy own on %I to rota_tenant using (tenant = current_tenant())', name);
        execute format('grant select on %I to rota_tenant', name);
    end loop;
    grant insert, update on concurrency_keys to rota_tenant;
end $$;

-- What leaders have learned, for tolerances nobody gave. A few names a tenant.
create table run_times (
    tenant integer not null,
    work integer not null, -- hash of (kind, name)
    typical_us bigint not null,
    learned_at timestamptz not null default now(),
    primary key (tenant, work)
);
create index run_times_learned on run_times (learned_at);
