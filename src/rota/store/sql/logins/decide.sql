-- The first decision holds.
update cli_logins set decided_at = now(), allowed = $2, principal = $3, tenant_name = $4
where user_code_hash = $1 and decided_at is null and expires_at > now()
returning {login_columns}
