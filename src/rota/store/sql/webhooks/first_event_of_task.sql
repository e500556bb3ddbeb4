select xid::text::bigint from events
where tenant = $1 and at >= (select created_at from tasks where id = $2 and tenant = $1)
order by xid limit 1
