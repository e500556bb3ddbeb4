-- Makes the tasks findable by their tags. In the transaction that writes the tasks.
insert into task_tags (task, tenant, name, value)
select tasks.id, tasks.tenant, tag.key, tag.value
from tasks
cross join lateral jsonb_each_text(tasks.tags) tag
where tasks.id = any($1) and tasks.tags is not null
