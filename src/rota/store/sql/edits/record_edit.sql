-- The record of an edit or an extension, and its event.
with kept as (
    insert into task_edits (task, tenant, user_name, changes, tolerance) values ($1, $2, $3, $4, $5)
)
insert into events (tenant, kind, tasks, numbers, details)
select $2, $6::smallint, array[$1::bigint], array[$7::smallint], json_build_object('user', $3::text, 'changes', $4::json)
where $4::text <> '{}'
