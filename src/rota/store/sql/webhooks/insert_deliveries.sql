insert into deliveries (webhook, tenant, message, type, body)
select $1, $2, * from unnest($3::text[], $4::text[], $5::text[]) on conflict do nothing
