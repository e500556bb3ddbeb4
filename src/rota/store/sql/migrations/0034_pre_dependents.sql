-- Who depends on a task, also after its end: `edges` holds live dependencies only, and `tasks.after_tasks` answers only from the
-- dependent's side. Written with the tasks (keep_dependents.sql); only those that depend on others pay for it. The tenant comes
-- first in the key: behind row-level security that is what reaches an index.
create table dependents (
    task bigint not null,
    tenant integer not null,
    parent bigint not null,
    primary key (tenant, parent, task)
) partition by range (task);
alter table dependents enable row level security;
create policy own on dependents to rota_tenant using (tenant = current_tenant());
grant select on dependents to rota_tenant;

create or replace function make_partition(first bigint, size bigint) returns void language plpgsql as $$
declare
    low bigint := first / size * size;
    parent text;
begin
    perform pg_advisory_xact_lock(7236002);
    foreach parent in array array['tasks', 'attempts', 'log_chunks', 'task_tags', 'dependents'] loop
        execute format(
            'create table if not exists %I partition of %I for values from (%s) to (%s)',
            parent || '_' || (low / size), parent, low, low + size
        );
    end loop;
end $$;
select make_partition(substring(relname from '[0-9]+$')::bigint * 5000000, 5000000)
from pg_inherits join pg_class on pg_class.oid = inhrelid
where inhparent = 'tasks'::regclass;

insert into dependents (task, tenant, parent)
select distinct tasks.id, tasks.tenant, parent.id
from tasks cross join lateral unnest(tasks.after_tasks) parent (id)
where tasks.after_tasks is not null;
