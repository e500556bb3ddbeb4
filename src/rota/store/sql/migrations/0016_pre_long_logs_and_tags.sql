-- Long output moves out of `log_chunks` into the object store. A segment is one object with the chunks first_seq to last_seq
-- of an attempt, without gaps from 0 on over all its segments; what is above the last segment is still in `log_chunks`.

create table log_segments (
    id bigint generated always as identity primary key, -- retention walks along it
    task bigint not null,
    attempt smallint not null,
    first_seq integer not null,
    last_seq integer not null,
    size_bytes bigint not null check (size_bytes > 0), -- of the output
    stored_bytes bigint not null check (stored_bytes > 0), -- of the object
    last_at timestamptz not null, -- when its last chunk came
    object_key text not null unique,
    unique (task, attempt, first_seq),
    check (first_seq <= last_seq)
);

-- Attempts whose output has become long: what is to be moved. Whoever looks moves `look_at` on first, so that others leave
-- it alone meanwhile.
create table long_logs (
    task bigint not null,
    attempt smallint not null,
    noted_at timestamptz not null default now(),
    look_at timestamptz not null default now(),
    primary key (task, attempt)
);
create index long_logs_due on long_logs (look_at);

-- Like chunks, segments carry no tenant and are reached through a task the caller can see.
alter table log_segments enable row level security;
create policy own on log_segments to rota_tenant using (exists (select from tasks where tasks.id = log_segments.task));
grant select on log_segments to rota_tenant;

-- ---- tags ----------------------------------------------------------------------------------------------------------

-- Tasks by tag, newest first. The index on `tasks.tags` could not serve tenants: behind row-level security only leakproof
-- conditions reach an index, and the one of documents is not. Written with the tasks (keep_tags.sql); only those that have
-- tags pay for it.
create table task_tags (
    task bigint not null,
    tenant integer not null,
    name text not null,
    value text not null,
    primary key (tenant, name, value, task)
) partition by range (task);
alter table task_tags enable row level security;
create policy own on task_tags to rota_tenant using (tenant = current_tenant());
grant select on task_tags to rota_tenant;

create or replace function make_partition(first bigint, size bigint) returns void language plpgsql as $$
declare
    low bigint := first / size * size;
    parent text;
begin
    perform pg_advisory_xact_lock(7236002);
    foreach parent in array array['tasks', 'attempts', 'log_chunks', 'task_tags'] loop
        execute format(
            'create table if not exists %I partition of %I for values from (%s) to (%s)',
            parent || '_' || (low / size), parent, low, low + size
        );
    end loop;
end $$;
select make_partition(substring(relname from '[0-9]+$')::bigint * 5000000, 5000000)
from pg_inherits join pg_class on pg_class.oid = inhrelid
where inhparent = 'tasks'::regclass;

insert into task_tags (task, tenant, name, value)
select tasks.id, tasks.tenant, tag.key, tag.value from tasks cross join lateral jsonb_each_text(tasks.tags) tag
where tasks.tags is not null;
drop index tasks_of_tag;

-- ---- retention -----------------------------------------------------------------------------------------------------

-- As before, but locks only what it must: the parents and the range itself. Locking a parent's other partitions too met
-- vacuum at work on one of them more often than not, and everybody waited behind the lock that never came. It is given up
-- on sooner; whoever calls tries again.
create or replace function drop_task_range(parents text[], range_number bigint, size bigint) returns bigint
language plpgsql as $$
declare
    low bigint := range_number * size;
    parent text;
    part text;
    key text;
    survivors bigint;
begin
    perform set_config('lock_timeout', '150ms', true);
    foreach parent in array parents loop
        execute format('lock table only %I in access exclusive mode', parent);
        execute format('lock table only %I in access exclusive mode', parent || '_' || range_number);
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
