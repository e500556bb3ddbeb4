-- Takes free places of keys counted across pools. The caller has locked the keys in an earlier statement, so the counts
-- see every place. For each other pool that has waited longer than this one, one place is left free.
with asked as materialized (
    select * from unnest($2::bigint[], $3::integer[], $4::text[], $5::integer[]) as asked (task, tenant, key, most)
),
counted as materialized (
    select wanted.tenant, wanted.key,
        (select count(*) from key_places where key_places.tenant = wanted.tenant and key_places.key = wanted.key)
            as held,
        (
            select count(*) from key_waits
            where key_waits.tenant = wanted.tenant and key_waits.key = wanted.key and key_waits.pool <> $1
                and key_waits.seen_at > now() - interval '10 seconds' and key_waits.since < coalesce(own.since, now())
        ) as ahead,
        own.since is not null as waited
    from (select distinct asked.tenant, asked.key from asked) wanted
    left join key_waits own on own.tenant = wanted.tenant and own.key = wanted.key and own.pool = $1
    where not exists (
        select from concurrency_keys
        where concurrency_keys.tenant = wanted.tenant and concurrency_keys.key = wanted.key
            and concurrency_keys.cooled_until > now()
    )
),
numbered as (
    select asked.*, counted.held + counted.ahead
        + row_number() over (partition by asked.tenant, asked.key order by asked.task) as place
    from asked join counted on counted.tenant = asked.tenant and counted.key = asked.key
),
taken as (
    insert into key_places (task, tenant, key, pool)
    select task, tenant, key, $1 from numbered where place <= most
    on conflict do nothing
    returning task, tenant, key
),
refused as (
    select distinct asked.tenant, asked.key from asked where not exists (select from taken where taken.task = asked.task)
),
waits as (
    insert into key_waits (tenant, key, pool) select tenant, key, $1 from refused
    on conflict (tenant, key, pool) do update
    set seen_at = now(), since = case
        when exists (select from taken where taken.tenant = excluded.tenant and taken.key = excluded.key) then now()
        else key_waits.since
    end
),
served as (
    delete from key_waits using counted
    where counted.waited and key_waits.tenant = counted.tenant and key_waits.key = counted.key and key_waits.pool = $1
        and not exists (select from refused where refused.tenant = counted.tenant and refused.key = counted.key)
)
select task from taken
