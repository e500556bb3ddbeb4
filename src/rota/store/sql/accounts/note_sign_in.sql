-- A user signs in: its name, and the tenant to look at first. No row: it is gone or disabled.
update principals set signed_in_at = now() where id = $1 and kind = 'user' and disabled_at is null
returning name, coalesce(
    (select tenant from bindings where principal = $1 and tenant is not null order by id limit 1),
    (select id from tenants where name = 'default'),
    (select min(id) from tenants)
) as tenant_id
