-- The sealed values of (tenant, name) pairs. The lateral lookup forces one plan: from the pairs to their rows.
select found.*
from unnest($1::integer[], $2::text[]) as asked (tenant, name)
cross join lateral (
    select secrets.tenant, secrets.name, secrets.key_id, secrets.wrapped_key, secrets.ciphertext from secrets
    where secrets.tenant = asked.tenant and secrets.name = asked.name
    offset 0
) found
