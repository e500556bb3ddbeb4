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

-- ---- lists ---------------------------------------------------------------------------------------------------------

-- Only tasks that have a schedule or tags pay for those two.
create index tasks_of_name on tasks (tenant, name, id);
create index tasks_of_schedule on tasks (schedule, id) where schedule is not null;
create index tasks_of_tag on tasks using gin (tags jsonb_path_ops) where tags is not null;

-- The last of a tenant's tasks, by id, that was created before a moment. Ids rise with time, but for those that nodes take
-- in blocks for a minute: whoever asks allows for that. A search by halves, so that times need no index.
create function task_id_at(owner integer, moment timestamptz) returns bigint language plpgsql stable as $$
declare
    low bigint := 0;
    high bigint;
    middle bigint;
    found record;
begin
    select tasks.id into high from tasks where tasks.tenant = owner order by tasks.id desc limit 1;
    while low < high loop
        middle := low + (high - low) / 2;
        select tasks.id, tasks.created_at into found
        from tasks where tasks.tenant = owner and tasks.id > middle order by tasks.id limit 1;
        if found.id is null or found.created_at >= moment then
            high := middle;
        else
            low := found.id;
        end if;
    end loop;
    return low;
end $$;

-- ---- retention -----------------------------------------------------------------------------------------------------

-- How many days things are kept after they ended; null: for ever.
create table retention (
    only_row boolean primary key default true check (only_row),
    tasks_days integer check (tasks_days > 0), -- with their attempts
    logs_days integer check (logs_days > 0), -- never longer than their tasks
    events_days integer check (events_days > 0) default 30,
    deliveries_days integer check (deliveries_days > 0) default 30
);
insert into retention default values;
grant select on retention to rota_tenant;

-- Drops one id range of some partitioned tables; rows of tasks that are still live move into a fresh partition of the same
-- range. Everything happens behind one lock, so nobody sees a survivor missing; the lock is given up on rather than waited
-- for, and files are removed after it is released. Answers how many survived.
create function drop_task_range(parents text[], range_number bigint, size bigint) returns bigint language plpgsql as $$
declare
    low bigint := range_number * size;
    parent text;
    part text;
    key text;
    survivors bigint;
begin
    perform set_config('lock_timeout', '500ms', true);
    foreach parent in array parents loop
        execute format('lock table %I in access exclusive mode', parent);
    end loop;
    select count(*) into survivors from queue where id >= low and id < low + size;
    foreach parent in array parents loop
        part := parent || '_' || range_number;
        key := case parent when 'tasks' then 'id' else 'task' end;
        execute format('alter table %I detach partition %I', parent, part);
        if survivors > 0 then
            execute format('alter table %I rename to %I', part, part || '_old');
            execute format('create table %I partition of %I for values from (%s) to (%s)', part, parent, low, low + size);
            execute format('insert into %I select * from %I where %I in (select id from queue where id >= %s and id < %s)',
                part, part || '_old', key, low, low + size);
            execute format('drop table %I', part || '_old');
        else
            execute format('drop table %I', part);
        end if;
    end loop;
    return survivors;
end $$;
