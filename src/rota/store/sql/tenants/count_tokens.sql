-- The tokens that are valid.
select count(*) from tokens
where tenant = $1 and revoked_at is null and (expires_at is null or expires_at > now())
