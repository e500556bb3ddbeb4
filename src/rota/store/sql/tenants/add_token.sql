insert into tokens (public_id, secret_hash, tenant, user_name, role, expires_at)
values ($1, $2, $3, $4, $5, coalesce($6::timestamptz, now() + $7::interval)) returning id
