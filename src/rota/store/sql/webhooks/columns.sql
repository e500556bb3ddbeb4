id, tenant, url, types, task, schedule, name, tag_name, tag_value, salt, created_by, created_at,
stopped_reason, xid, "row", position
