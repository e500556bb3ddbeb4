-- The audit log is read by time, newest first, so each way to look has the time in its index.
drop index audit_log_objects;
drop index audit_log_tenants;
drop index audit_log_actors;
create index audit_log_times on audit_log (at, id);
create index audit_log_objects on audit_log (object_kind, object_id, at, id);
create index audit_log_tenants on audit_log (tenant, at, id);
create index audit_log_actors on audit_log (actor, at, id);

-- The days of seals never go back, so that whole months can be dropped from the beginning of the chain. A row that was
-- begun before midnight may be sealed with the next day; `earlier` names those of a month before that of the day, and
-- `earlier_months` their months, as 203001: they go when their own month does.
alter table audit_seals add column version smallint not null default 1; -- of the bytes that are summed: store/audit_sums.py
alter table audit_seals add column earlier bigint[] not null default '{}';
alter table audit_seals add column earlier_months integer[] not null default '{}';
alter table audit_seals add column most_id bigint not null default 0; -- the largest id in this or an earlier seal

-- Which row of the audit log tells of a task that was changed with others. Single changes are found by their object.
create table task_changes (
    task bigint not null,
    audit bigint not null,
    primary key (task, audit)
);
revoke all on task_changes from public, rota_tenant;
alter table operations add column audit bigint; -- the row that tells of its start

create function drop_audit_month(first date) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(7236004);
    execute format(
        'drop table if exists %I, %I', 'audit_log_' || to_char(first, 'YYYYMM'), 'audit_seals_' || to_char(first, 'YYYYMM')
    );
end $$;
