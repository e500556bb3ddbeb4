-- Moves the cursors of schedules that the same transaction has locked.
update schedules
set next_at = new.next_at, previous_at = new.previous_at, moved_from = null, runs = schedules.runs + new.runs,
    last_tasks = case when new.last_tasks is null then schedules.last_tasks
        else string_to_array(new.last_tasks, ',')::bigint[] end,
    last_graph = case when new.last_tasks is null then schedules.last_graph else new.last_graph end
from unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::integer[], $5::text[], $6::bigint[])
    as new (id, next_at, previous_at, runs, last_tasks, last_graph)
where schedules.id = new.id
