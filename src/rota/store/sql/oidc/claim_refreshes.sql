-- Those that are due and whose users are signed in by the provider, or own tokens that count. They are due again after $1
-- unless the refresh is recorded before: a server node that dies with them delays them only.
update oidc_identities set refresh_at = now() + $1::interval
where id in (
    select due.id from oidc_identities due join principals on principals.id = due.principal
    where due.issuer = $2 and due.refresh_at <= now() and principals.disabled_at is null and (
        exists (
            select from sessions
            where sessions.principal = due.principal and sessions.via = 'oidc' and sessions.ended_at is null
                and sessions.ends_at > now()
        ) or exists (
            select from tokens
            where tokens.owner = due.principal and tokens.revoked_at is null
                and (tokens.expires_at is null or tokens.expires_at > now())
        )
    )
    order by due.refresh_at limit $3 for update of due skip locked
)
returning id, issuer, subject, principal, key_id, wrapped_key, sealed_token
