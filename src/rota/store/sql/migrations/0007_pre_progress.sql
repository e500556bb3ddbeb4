-- What running tasks say and are told: how far they are, caps that were extended, effects done once.

-- The latest word of running attempts only; most tasks say nothing and have no row. Rows of what no longer runs are
-- swept by housekeeping: a settlement does not pay for them.
create table progress (
    task bigint primary key,
    attempt smallint not null,
    tenant integer not null,
    fraction real check (fraction between 0 and 1), -- null: only words
    message text not null default '' check (length(message) <= 200),
    at timestamptz not null default now()
) with (fillfactor = 70);
alter table progress enable row level security;
create policy own on progress to rota_tenant using (tenant = current_tenant());
grant select on progress to rota_tenant;

-- A cap that was changed after admission: `tasks.cap_ms` keeps what was submitted, `queue.cap_ms` is what holds. Leaders
-- find those they were not told of by this flag.
alter table queue add column cap_changed boolean not null default false;
create index queue_cap_changed on queue (pool) where cap_changed;

-- A claim is somebody doing it right now. It lapses, so that one who died doesn't block the key for ever.
alter table once add column claim text, -- whose; null once it is done without one
    add column task bigint, -- the claimant's task: a later attempt of the same one takes the claim over at once
    add column attempt smallint,
    add column claimed_until timestamptz,
    add column done_at timestamptz;
alter table once enable row level security;
create policy own on once to rota_tenant using (tenant = current_tenant());
grant select on once to rota_tenant;
