-- Whether an administrator everywhere can sign in: by password, or through a provider.
select exists (
    select from principals join bindings on bindings.principal = principals.id
    where principals.kind = 'user' and principals.disabled_at is null
        and bindings.role = 'admin' and bindings.tenant is null
        and (
            exists (select from passwords where passwords.principal = principals.id)
            or exists (select from oidc_identities where oidc_identities.principal = principals.id)
        )
)
