insert into tokens (public_id, secret_hash, tenant, user_name, role, expires_at,
    owner, name, scopes, pools, names, own, addresses, created_by)
values ($1, $2, $3, $4, $5, coalesce($6::timestamptz, now() + $7::interval), $8, $9, $10, $11, $12, $13, $14, $15)
returning id
