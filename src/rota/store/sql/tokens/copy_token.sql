-- The same rights under another secret, unless another rotation was faster. The name follows, see name_copy.
insert into tokens (public_id, secret_hash, tenant, user_name, role, expires_at,
    owner, scopes, pools, names, own, addresses, created_by)
select $2, $3, tenant, user_name, role, coalesce($4::timestamptz, now() + $5::interval),
    owner, scopes, pools, names, own, addresses, $6
from tokens where id = $1 and revoked_at is null and replaced_by is null
returning id
