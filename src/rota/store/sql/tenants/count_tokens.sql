-- The tokens that are valid, without those that rotation has replaced and that end soon.
select count(*) from tokens
where tenant = $1 and revoked_at is null and replaced_by is null and (expires_at is null or expires_at > now())
