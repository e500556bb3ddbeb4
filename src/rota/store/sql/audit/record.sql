-- Rows of the audit log, from an array of objects with the names of its columns. Returns their ids in the order of the array.
insert into audit_log (tenant, actor_kind, actor, credential, on_behalf_of, via, action, object_kind, object_id, outcome,
    reason, before, after, selection, count, address, agent, request_id, server)
select {entry_columns} from jsonb_to_recordset($1::jsonb) as {entry_types}
returning id
