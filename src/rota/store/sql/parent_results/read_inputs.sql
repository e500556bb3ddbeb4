-- Results of ended tasks for their dependents. Of a result longer than $2 bytes only the task's name is returned.
select attempts.task, tasks.name,
    case when octet_length(attempts.result::text) <= $2 then attempts.result end as result
from attempts
join tasks on tasks.id = attempts.task and tasks.id = any($1)
where attempts.task = any($1) and attempts.state = {DONE} and attempts.result is not null
