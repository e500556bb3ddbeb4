-- A page of the log, newest first. One condition has an index (`chosen`); the others are checked on at most $1 rows of it, so
-- that a page is never expensive: it may be short, or empty, and still have a next one. The last row examined comes too.
with found as (
    select {row_columns} from audit_log
    where {chosen} and (at, id) < ($2, $3) and at <= $2 and at >= $4
        and ($5::integer is null or tenant = $5) and ($6::text is null or actor = $6)
        and ($7::text is null or object_kind = $7) and ($8::text is null or object_id = $8)
    order by at desc, id desc limit $1
),
page as (
    select found.* from found
    where ($9::text is null or starts_with(action, $9)) and ($10::text is null or outcome = $10)
        and ($11::text is null or credential = $11) and ($12::inet is null or address::inet <<= $12)
    order by at desc, id desc limit $13
),
last as (
    select id, count(*) over () as examined from found order by at, id limit 1
)
select page.*, tenants.name as tenant_name, last.id as last_id, last.examined
from last left join page on true left join tenants on tenants.id = page.tenant
order by page.at desc, page.id desc
