-- The oldest month whose last row is more than $1 days old, with the last of its seals. It is kept while a row of it is not
-- sealed, or no later day has a seal: the chain goes on from there.
with newest as (
    select to_xid, to_id, least_id, day from audit_seals order by number desc limit 1
),
month as (
    select to_date(right(relname, 6), 'YYYYMM') as first
    from pg_inherits join pg_class on pg_class.oid = inhrelid
    where inhparent = 'audit_log'::regclass and relname ~ '^audit_log_[0-9]{6}$'
    order by relname limit 1
)
select month.first, seal.number, seal.hash
from month
join newest on newest.day >= month.first + interval '1 month'
left join lateral (
    select number, hash from audit_seals where day < month.first + interval '1 month' order by number desc limit 1
) seal on true
where month.first + interval '1 month' + make_interval(days => $1) < now()
    and not exists (
        select from audit_log
        where at < (month.first + interval '1 month') at time zone 'UTC'
            and (xid, id) > (newest.to_xid, newest.to_id) and id >= newest.least_id
    )
