-- Users and service accounts that are administrators everywhere and not disabled.
select principals.id from principals
where principals.disabled_at is null and exists (
    select from bindings where bindings.principal = principals.id and bindings.role = 'admin' and bindings.tenant is null
)
