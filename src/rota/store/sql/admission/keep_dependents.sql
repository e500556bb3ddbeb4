-- Makes the tasks findable by those they depend on. In the transaction that writes the tasks.
insert into dependents (task, tenant, parent)
select tasks.id, tasks.tenant, parent.id
from tasks
cross join lateral unnest(tasks.after_tasks) parent (id)
where tasks.id = any($1) and tasks.after_tasks is not null
on conflict do nothing
