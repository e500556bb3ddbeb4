-- Of users for whom the provider did not speak for so long.
update sessions set ended_at = now()
from principals
where sessions.id in (
    select sessions.id from sessions
    where sessions.via = 'oidc' and sessions.ended_at is null and sessions.ends_at > now() and not exists (
        select from oidc_identities
        where oidc_identities.principal = sessions.principal and oidc_identities.confirmed_at > now() - $1::interval
    )
    order by sessions.id limit $2
) and principals.id = sessions.principal
returning sessions.id, sessions.principal, principals.name
