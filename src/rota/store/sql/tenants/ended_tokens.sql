select wanted.id from unnest($1::integer[]) as wanted (id)
left join tokens on tokens.id = wanted.id
where tokens.id is null or tokens.revoked_at is not null or tokens.expires_at <= now()
