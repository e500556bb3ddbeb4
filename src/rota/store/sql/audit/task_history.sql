-- What people did to a task since it was made ($2), alone or with others, newest first.
(
    select {row_columns} from audit_log
    where object_kind = 'task' and object_id = $1::bigint::text and at >= $2 and tenant = $3 and outcome = 'done'
        and action <> 'task.read'
    order by at desc, id desc limit $4
)
union all
(
    select {row_columns}
    from task_changes
    cross join lateral (select * from audit_log where id = task_changes.audit and at >= $2 offset 0) audit_log
    where task_changes.task = $1 and audit_log.tenant = $3
    order by audit_log.at desc, audit_log.id desc limit $4
)
order by at desc, id desc limit $4
