select wanted.id from unnest($1::integer[]) as wanted (id)
left join tokens on tokens.id = wanted.id
left join principals on principals.id = tokens.owner
where tokens.id is null or tokens.revoked_at is not null or tokens.expires_at <= now() or principals.disabled_at is not null
