-- Renews the waits of this pool for these keys, and deletes its other waits. Returns how many places of each key other
-- pools hold or are served first with.
with wanted as materialized (
    select * from unnest($2::integer[], $3::text[]) as wanted (tenant, key)
),
over as (
    delete from key_waits where pool = $1
        and not exists (select from wanted where wanted.tenant = key_waits.tenant and wanted.key = key_waits.key)
),
seen as (
    update key_waits set seen_at = now() from wanted
    where key_waits.pool = $1 and key_waits.tenant = wanted.tenant and key_waits.key = wanted.key
)
select wanted.tenant, wanted.key,
    (
        select count(*) from key_places
        where key_places.tenant = wanted.tenant and key_places.key = wanted.key and key_places.pool <> $1
    ) + (
        select count(*) from key_waits
        where key_waits.tenant = wanted.tenant and key_waits.key = wanted.key and key_waits.pool <> $1
            and key_waits.seen_at > now() - interval '10 seconds' and key_waits.since < coalesce((
                select own.since from key_waits own
                where own.tenant = wanted.tenant and own.key = wanted.key and own.pool = $1
            ), now())
    ) as elsewhere
from wanted
order by wanted.tenant, wanted.key
