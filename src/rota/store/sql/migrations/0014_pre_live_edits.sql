-- What owners and operators change while tasks wait: edits, holds, paused tenants; and tasks that would rather be dropped
-- than start late.

alter table queue
    -- An edit's tolerance; null: as the task was submitted.
    add column tolerance_ms bigint check (tolerance_ms >= 0),
    add column tolerance_given boolean,
    -- Why its owner holds it back; null: it is not held, or was paused without a word.
    add column held_reason text check (length(held_reason) <= 1000),
    -- Dropped when its start-by time has passed before its first start.
    add column expires boolean not null default false;
alter table tasks add column expires boolean not null default false;

-- Only tasks that would be dropped pay for it, and like every index of the queue it does not mention `state`.
create index queue_expiring on queue (start_by) where expires;

-- A paused tenant, as a paused pool (`pools.paused`), starts nothing new.
alter table tenants add column paused boolean not null default false;

-- Who changed what of a task while it waited. Insert-only, one row an edit; the spec keeps what was submitted.
create table task_edits (
    id bigint generated always as identity primary key,
    task bigint not null,
    tenant integer not null,
    user_name text not null,
    at timestamptz not null default now(),
    changes json not null, -- field → what it was, what it became
    tolerance boolean not null -- whether somebody gave it a tolerance by this edit
);
create index task_edits_of_task on task_edits (task, id);
alter table task_edits enable row level security;
create policy own on task_edits to rota_tenant using (tenant = current_tenant());
grant select on task_edits to rota_tenant;

-- The database's own word on tasks that expire: they have never run.
alter table attempts add constraint expired_before_it_ran check (state <> 14 or (number = 0 and outcome = 11)) not valid;
