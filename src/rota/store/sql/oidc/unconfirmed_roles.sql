-- Users with roles of the provider, for whom it did not speak for so long.
select bindings.principal from bindings
where bindings.source = 'oidc' and not exists (
    select from oidc_identities
    where oidc_identities.principal = bindings.principal and oidc_identities.confirmed_at > now() - $1::interval
)
group by bindings.principal order by bindings.principal limit $2
