select wanted.id from unnest($1::bigint[]) as wanted (id)
left join sessions on sessions.id = wanted.id
left join principals on principals.id = sessions.principal
where sessions.id is null or sessions.ended_at is not null or sessions.ends_at <= now() or principals.disabled_at is not null
