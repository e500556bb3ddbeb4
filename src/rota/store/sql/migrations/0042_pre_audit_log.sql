-- The audit log: who did what, by which token or session, from where, and with what outcome. A row is written by the
-- transaction of what it tells of, so that neither is there without the other. Rows are never changed: triggers refuse it,
-- also to the role that owns the table, and the sums in `audit_seals` show what was changed by those who can drop triggers.
create sequence audit_ids;

create table audit_log (
    at timestamptz not null default now(),
    id bigint not null default nextval('audit_ids'),
    xid xid8 not null default pg_current_xact_id(), -- rows are sealed in the order of (xid, id), below the oldest open transaction
    tenant integer, -- whose administrators see it; null: of the cluster
    actor_kind text not null check (actor_kind in ('user', 'service', 'node', 'task', 'system', 'anonymous')),
    actor text not null,
    credential text not null default '', -- as people read it: `token ci-7`, `session 12`
    on_behalf_of text not null default '',
    via text not null default '' check (via in ('ui', 'cli', 'api', 'sdk', '')), -- '': by a server node itself
    action text not null, -- kind.verb
    object_kind text not null,
    object_id text not null,
    outcome text not null default 'done' check (outcome in ('done', 'denied', 'failed')),
    reason text not null default '',
    before jsonb, -- never secrets or hashes
    after jsonb,
    selection jsonb, -- of a change of many: the filter, or the ids
    count bigint, -- how many it is about; of sampled rows: how many more were not written
    address inet,
    agent text not null default '',
    request_id text not null default '',
    server text not null default '',
    primary key (id, at)
) partition by range (at);
create index audit_log_order on audit_log (xid, id);
create index audit_log_objects on audit_log (object_kind, object_id, id);
create index audit_log_tenants on audit_log (tenant, id);
create index audit_log_actors on audit_log (actor, id);

-- A seal holds the sums of rows of one day, and the sum over these and the previous seal: one chain from the first row on.
create table audit_seals (
    number bigint not null,
    day date not null, -- of its rows
    at timestamptz not null default now(),
    after_xid xid8 not null, -- its rows come after (after_xid, after_id), up to (to_xid, to_id), in the order of (xid, id)
    after_id bigint not null,
    to_xid xid8 not null,
    to_id bigint not null,
    least_id bigint not null default 0, -- and have at least this id: a restored database counts transactions anew
    ids bigint[] not null,
    digests bytea not null, -- of each row 32 bytes, to find out which one was changed
    previous bytea not null,
    hash bytea not null,
    primary key (number, day)
) partition by range (day);

-- Should nobody have made a month's partitions, its rows still have a place.
create table audit_log_default partition of audit_log default;
create table audit_seals_default partition of audit_seals default;

create function refuse_audit_change() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is insert-only: % of % is refused', lower(tg_op), tg_table_name
        using errcode = 'insufficient_privilege', hint = 'retention drops whole months: rota retention set --audit';
end $$;
-- Row triggers hold for all partitions, the others for the table that they are made on.
create trigger only_insert before update or delete on audit_log for each row execute function refuse_audit_change();
create trigger only_insert before update or delete on audit_seals for each row execute function refuse_audit_change();
create trigger no_truncate before truncate on audit_log execute function refuse_audit_change();
create trigger no_truncate before truncate on audit_seals execute function refuse_audit_change();
create trigger no_truncate before truncate on audit_log_default execute function refuse_audit_change();
create trigger no_truncate before truncate on audit_seals_default execute function refuse_audit_change();

create function make_audit_month(day date) returns void language plpgsql as $$
declare
    first date := date_trunc('month', day);
    following date := first + interval '1 month';
    parent text;
    part text;
begin
    perform pg_advisory_xact_lock(7236004);
    foreach parent in array array['audit_log', 'audit_seals'] loop
        part := parent || '_' || to_char(first, 'YYYYMM');
        if to_regclass(part) is null then
            if parent = 'audit_log' then
                execute format(
                    'create table %I partition of audit_log for values from (%L) to (%L)',
                    part, first::text || ' 00:00+00', following::text || ' 00:00+00'
                );
            else
                execute format('create table %I partition of audit_seals for values from (%L) to (%L)', part, first, following);
            end if;
            execute format(
                'create trigger no_truncate before truncate on %I execute function refuse_audit_change()', part
            );
        end if;
    end loop;
end $$;
select make_audit_month(date_trunc('month', month)::date)
from generate_series(
    (select date_trunc('month', coalesce(min(at), now()) at time zone 'UTC') from audit),
    date_trunc('month', now() at time zone 'UTC') + interval '2 months',
    interval '1 month'
) month;

-- What the old table has is copied; servers older than this write there until the last of them has ended, and a later
-- migration copies the rest.
alter table audit add column copied boolean not null default true;
alter table audit alter column copied set default false;
insert into audit_log (at, tenant, actor_kind, actor, action, object_kind, object_id)
select at, tenant, 'service', user_name, action, split_part(action, '.', 1), target from audit order by id;

-- A row says when and by which transaction it was written: nobody backdates one, or slips one in among sealed rows.
create function check_audit_row() returns trigger language plpgsql as $$
begin
    if new.at <> now() or new.xid <> pg_current_xact_id() then
        raise exception 'a row of the audit log has the time and the transaction of its writing'
            using errcode = 'insufficient_privilege';
    end if;
    return new;
end $$;
create trigger as_it_happens before insert on audit_log for each row execute function check_audit_row();

revoke all on audit_log, audit_seals from public, rota_tenant;

alter table retention add column audit_days integer check (audit_days > 0) default 400;
