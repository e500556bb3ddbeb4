-- The tokens of a principal with a name at a tenant, with those that rotation has replaced.
update tokens set revoked_at = now()
where owner = $1 and tenant = $2 and name = $3 and revoked_at is null
returning id
