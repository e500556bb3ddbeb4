-- $1 is replaced by $2, and ends after the overlap $3 at the latest. What it has replaced itself ends now.
update tokens set
    replaced_by = case when id = $1 then $2 else replaced_by end,
    expires_at = case when id = $1 then least(expires_at, now() + $3::interval) else expires_at end,
    revoked_at = case when id = $1 then revoked_at else coalesce(revoked_at, now()) end
where id = $1 or replaced_by = $1
