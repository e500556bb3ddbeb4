-- The log of events: one row a transaction, tenant and kind, naming the tasks it is about. What happened to each of them is
-- read from the ledgers, which the same transaction wrote; so an event costs a few bytes, and is there exactly if what it
-- tells of is. Readers go by (xid, id) below the oldest transaction still under way: nothing can appear behind them.
create sequence event_ids;

create table events (
    id bigint not null default nextval('event_ids'),
    at timestamptz not null default now(),
    xid xid8 not null default pg_current_xact_id(),
    tenant integer not null,
    kind smallint not null check (kind between 1 and 5), -- see model/event.py
    tasks bigint[] not null, -- of kind 5: schedules
    numbers smallint[], -- the attempts
    details json
) partition by range (at);
create index events_of_tenant on events (tenant, xid, id);

-- Should nobody have made a day's partition, its events still have a place.
create table events_default partition of events default;

create function make_event_partition(day date) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(7236003);
    execute format(
        'create table if not exists %I partition of events for values from (%L) to (%L)',
        'events_' || to_char(day, 'YYYYMMDD'), day::text || ' 00:00+00', (day + 1)::text || ' 00:00+00'
    );
end $$;
select make_event_partition((now() at time zone 'UTC')::date + n) from generate_series(0, 2) n;

alter table events enable row level security;
create policy own on events to rota_tenant using (tenant = current_tenant());
grant select on events to rota_tenant;

-- Whose start-by time passed before they ran, and were told of. Only tasks with a timer are in the index.
alter table queue add column late_told boolean not null default false;
create index queue_late on queue (start_by) where wake_at is not null and not late_told;
