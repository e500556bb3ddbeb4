-- A minute of slack: the task's time and that of its transaction are read from different clocks.
select xid::text::bigint from events
where tenant = $1 and at >= (select created_at - interval '1 minute' from tasks where id = $2 and tenant = $1)
order by xid limit 1
