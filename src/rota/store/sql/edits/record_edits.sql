-- The records of edits or extensions, and an event for all that changed alike.
with given as materialized (
    select * from unnest($1::bigint[], $4::text[]) as given (task, changes)
),
kept as (
    insert into task_edits (task, tenant, user_name, changes, tolerance)
    select given.task, $2, $3, given.changes::json, $5 from given
)
insert into events (tenant, kind, tasks, numbers, details)
select $2, $6::smallint, array_agg(given.task order by given.task), array_agg($7::smallint),
    json_build_object('user', $3::text, 'changes', given.changes::json)
from given where given.changes <> '{}'
group by given.changes
