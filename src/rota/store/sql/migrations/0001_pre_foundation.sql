-- The first schema. `tasks` and `attempts` are insert-only ledgers partitioned by task id; `queue` is the one mutable
-- hot table and holds live tasks only. No foreign keys on hot tables: invariants are CHECKs, unique keys and
-- compare-and-set.

create table cluster (
    only_row boolean primary key default true check (only_row),
    identity uuid not null default gen_random_uuid(),
    secret text not null,
    created_at timestamptz not null default now()
);

-- ---- who belongs -------------------------------------------------------------------------------------------------

create table plans (
    name text primary key check (name ~ '^[a-z][a-z0-9-]{0,39}$'),
    tasks_per_hour integer check (tasks_per_hour > 0),
    burst integer check (burst > 0),
    waiting_tasks integer check (waiting_tasks > 0),
    running_cpu_milli bigint check (running_cpu_milli > 0),
    running_memory_bytes bigint check (running_memory_bytes > 0),
    longest_cap_seconds integer not null check (longest_cap_seconds > 0),
    tiers text[] not null,
    weight integer not null check (weight between 1 and 1000)
);

insert into plans values
    ('free', 100, 50, 200, 2000, 2000000000, 3600, '{basic}', 1),
    ('standard', 10000, 2000, 20000, 16000, 32000000000, 86400, '{basic,regular}', 2),
    ('business', 1000000, 50000, 1000000, 256000, 512000000000, 604800, '{basic,regular,premium}', 4),
    ('unlimited', null, null, null, null, null, 2592000, '{basic,regular,premium}', 4);

create table tenants (
    id integer generated always as identity primary key,
    name text not null unique check (name ~ '^[a-z][a-z0-9-]{0,39}$'),
    plan text not null references plans (name),
    trusted boolean not null default false,
    created_at timestamptz not null default now()
);

create table users (
    id integer generated always as identity primary key,
    tenant integer not null references tenants (id),
    name text not null,
    password_hash text,
    unique (tenant, name)
);

create table tokens (
    id integer generated always as identity primary key,
    public_id text not null unique,
    secret_hash bytea not null,
    tenant integer not null references tenants (id),
    user_name text not null,
    role text not null check (role in ('admin', 'operator', 'member', 'viewer', 'worker')),
    pools text[],
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz
);

-- Generic cell rate algorithm: one row per tenant, the theoretical arrival time of its next task.
create table rate_limits (
    tenant integer primary key,
    arrival timestamptz not null
);

create table tiers (
    name text primary key,
    cpu_milli integer not null,
    memory_bytes bigint not null,
    disk_bytes bigint not null
);

insert into tiers values
    ('basic', 1000, 256000000, 1000000000),
    ('regular', 2000, 2000000000, 10000000000),
    ('premium', 4000, 8000000000, 50000000000);

-- ---- where things run ----------------------------------------------------------------------------------------------

create table pools (
    id smallint generated always as identity primary key,
    name text not null unique check (name ~ '^[a-z][a-z0-9-]{0,39}$'),
    elastic boolean not null default false,
    paused boolean not null default false
);

insert into pools (name) values ('default');

create table lanes (
    rank smallint primary key,
    name text not null unique
);

insert into lanes values (0, 'urgent'), (1, 'normal'), (2, 'periodic'), (3, 'off-peak');

create table servers (
    id integer generated always as identity primary key,
    holder uuid not null unique, -- random per process start
    name text not null,
    url text not null,
    version text not null,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now()
);

create table nodes (
    id integer generated always as identity primary key,
    pool smallint not null,
    name text not null,
    boot bigint not null,
    capacity json not null,
    labels json not null,
    capabilities text[] not null,
    version text not null,
    state text not null default 'up' check (state in ('up', 'draining', 'lost', 'removed')),
    registered_at timestamptz not null default now(),
    seen_at timestamptz not null default now(),
    unique (pool, name)
);

-- The lease is liveness, the fence is safety: a batch locks (pool, epoch) FOR KEY SHARE, a take-over changes epoch and
-- so waits for it, a renewal touches only expires_at and does not.
create table leases (
    pool smallint primary key,
    epoch bigint not null,
    holder uuid not null,
    expires_at timestamptz not null,
    unique (pool, epoch)
) with (fillfactor = 50);

-- ---- tasks ---------------------------------------------------------------------------------------------------------

create sequence task_ids minvalue 1;

-- Blocks of ids for one server node. The lock makes nextval + setval one step; nothing here rolls back.
create function take_task_ids(amount integer) returns bigint language plpgsql as $$
declare first bigint;
begin
    perform pg_advisory_xact_lock(7236001);
    first := nextval('task_ids');
    perform setval('task_ids', first + amount - 1);
    return first;
end $$;

-- Every distinct demand, once. Tasks carry its number, so placement works on kinds of task.
create table shapes (
    id integer generated always as identity primary key,
    cpu_milli bigint not null,
    memory_bytes bigint not null,
    disk_bytes bigint not null,
    gpus integer not null,
    ports integer not null,
    custom jsonb not null,
    require jsonb not null
);
create unique index shapes_once on shapes (cpu_milli, memory_bytes, disk_bytes, gpus, ports, custom, require);

create table tasks (
    id bigint not null primary key,
    tenant integer not null,
    user_name text not null,
    pool smallint not null,
    kind smallint not null,
    name text not null,
    lane smallint not null,
    priority integer not null,
    tolerance_ms bigint not null,
    tolerance_given boolean not null,
    start_by timestamptz not null,
    urgent_at timestamptz,
    not_before timestamptz,
    tier text not null,
    shape integer not null,
    scheduling smallint not null,
    server integer not null, -- which node admitted it
    concurrency_key text,
    concurrency_limit integer,
    cap_ms bigint not null,
    attempts smallint not null,
    backoff_ms integer not null,
    backoff_limit_ms integer not null,
    idempotency_key text,
    after_tasks bigint[],
    upstream smallint not null,
    retry_of bigint,
    tags jsonb,
    spec json not null,
    created_at timestamptz not null default now()
) partition by range (id);
create index tasks_of_tenant on tasks (tenant, id);

create table queue (
    id bigint not null primary key,
    pool smallint not null,
    tenant integer not null,
    lane smallint not null,
    urgency integer not null, -- minus priority: ascending like the rest of the order
    start_by timestamptz not null,
    cap_ms bigint not null,
    shape integer not null,
    work integer not null, -- hash of (kind, name): whose run times are alike
    state smallint not null check (state between 1 and 5),
    version integer not null default 0, -- every edit raises it, so a stale copy can't start
    wake_at timestamptz,
    attempt smallint not null default 0, -- number of the last attempt
    used smallint not null default 0, -- attempts that count against the limit
    losses smallint not null default 0, -- worker losses, counted apart
    attempts smallint not null,
    concurrency_key text,
    concurrency_limit integer,
    node integer,
    boot bigint,
    epoch bigint,
    grace_ms integer,
    started_at timestamptz,
    cancel_requested boolean not null default false,
    constraint running_means_authorised check (
        state <> 4 or (node is not null and boot is not null and epoch is not null and attempt > 0)
    ),
    constraint attempts_within_limit check (used <= attempts)
) with (
    fillfactor = 60, vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
-- No index names `state`: a start is then a HOT update and costs half.
-- `id + 0`: a search by id alone must never be served by walking this index.
create index queue_order on queue (pool, tenant, lane, urgency, start_by, cap_ms, (id + 0));
create index queue_timer on queue (pool, tenant, wake_at) where wake_at is not null;
create index queue_cancelling on queue (pool) where cancel_requested;

create table attempts (
    task bigint not null,
    number smallint not null, -- 0: the task ended without ever starting
    tenant integer not null,
    state smallint not null, -- the task's final state, 0 while it goes on
    outcome smallint not null,
    node integer,
    started_at timestamptz,
    ended_at timestamptz not null default now(),
    run_us bigint not null default 0,
    cpu_ms bigint not null default 0,
    peak_memory_bytes bigint not null default 0,
    exit_code integer,
    result json,
    failure json, -- {type, message, traceback}
    reason text, -- why the task took this state, in one sentence
    log_bytes bigint not null default 0,
    log_dropped_bytes bigint not null default 0,
    primary key (task, number),
    check (state = 0 or state between 10 and 14)
) partition by range (task);
create index attempts_final on attempts (tenant, state, task) where state > 0;

create table log_chunks (
    task bigint not null,
    attempt smallint not null,
    seq integer not null,
    stream smallint not null check (stream in (1, 2)), -- stdout, stderr
    data bytea not null,
    at timestamptz not null default now(),
    primary key (task, attempt, seq)
) partition by range (task);

-- Live dependencies only: a row goes when its child is released. `tasks.after_tasks` keeps the history.
create table edges (
    parent bigint not null,
    child bigint not null,
    child_pool smallint not null,
    upstream smallint not null,
    parent_state smallint, -- null while the parent is live
    primary key (parent, child)
);
create index edges_of_child on edges (child);
create index edges_resolved on edges (child_pool, child) where parent_state is not null;

create table idempotency (
    tenant integer not null,
    key_hash bytea not null,
    body_hash bytea not null,
    task bigint not null,
    batch bigint[], -- all ids, when the key was a whole batch's
    created_at timestamptz not null default now(),
    primary key (tenant, key_hash)
);
create index idempotency_age on idempotency (created_at);

-- One row per admission transaction. A lost reply to COMMIT is resolved by inserting the same row again.
create table flights (
    id uuid primary key,
    created_at timestamptz not null default now()
);

create table dead_letters (
    task bigint primary key,
    tenant integer not null,
    reason text not null,
    died_at timestamptz not null default now()
);
create index dead_letters_of_tenant on dead_letters (tenant, task);

-- At most one new run per ended task.
create table reruns (
    task bigint primary key,
    tenant integer not null,
    rerun bigint not null,
    created_at timestamptz not null default now()
);

create table once (
    tenant integer not null,
    key text not null,
    result json,
    created_at timestamptz not null default now(),
    primary key (tenant, key)
);

create table outbox (
    id bigint generated always as identity primary key,
    tenant integer not null,
    task bigint not null,
    event text not null,
    body json not null,
    xid xid8 not null default pg_current_xact_id(),
    created_at timestamptz not null default now()
);

create table audit (
    id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    tenant integer,
    user_name text not null,
    action text not null,
    target text not null
);

-- ---- partitions ----------------------------------------------------------------------------------------------------

-- Makes the partitions of one id range exist: [k, k+1) times the size. Called two ahead of the id sequence. The lock lets
-- several nodes call it at once: `if not exists` alone fails when two find it missing at the same moment.
create function make_partition(first bigint, size bigint) returns void language plpgsql as $$
declare
    low bigint := first / size * size;
    parent text;
begin
    perform pg_advisory_xact_lock(7236002);
    foreach parent in array array['tasks', 'attempts', 'log_chunks'] loop
        execute format(
            'create table if not exists %I partition of %I for values from (%s) to (%s)',
            parent || '_' || (low / size), parent, low, low + size
        );
    end loop;
end $$;

select make_partition(0, 5000000), make_partition(5000000, 5000000), make_partition(10000000, 5000000);

-- ---- the second wall: row-level security -------------------------------------------------------------------------

do $$
begin
    if not exists (select from pg_roles where rolname = 'rota_tenant') then
        create role rota_tenant nologin;
    end if;
exception when duplicate_object or unique_violation then
    null; -- another database of this server, which has the same roles, was prepared at the same moment
end $$;

create function current_tenant() returns integer language sql stable parallel safe as $$
    select nullif(current_setting('rota.tenant', true), '')::integer
$$;

do $$
declare name text;
begin
    execute format('grant rota_tenant to %I', current_user);
    execute format('grant usage on schema %I to rota_tenant', current_schema());
    foreach name in array array['tasks', 'queue', 'attempts', 'dead_letters', 'reruns', 'idempotency'] loop
        execute format('alter table %I enable row level security', name);
        execute format('create policy own on %I to rota_tenant using (tenant = current_tenant())', name);
    end loop;
    grant select on tasks, queue, attempts, dead_letters, reruns, log_chunks, nodes, pools, shapes, tenants, edges,
        servers, lanes to rota_tenant;
    grant insert on reruns to rota_tenant;
    grant update, delete on queue, dead_letters to rota_tenant;
end $$;
alter table tenants enable row level security;
create policy own on tenants to rota_tenant using (id = current_tenant());
-- Log chunks carry no tenant; they are reached through a task the caller can see.
alter table log_chunks enable row level security;
create policy own on log_chunks to rota_tenant using (exists (select from tasks where tasks.id = log_chunks.task));
alter table edges enable row level security;
create policy own on edges to rota_tenant using (exists (select from tasks where tasks.id = edges.child));
