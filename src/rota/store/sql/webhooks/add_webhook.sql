insert into webhooks (tenant, url, types, task, schedule, name, tag_name, tag_value, salt, created_by, xid)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning {columns}
