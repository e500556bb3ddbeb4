-- Rows before the first seal that is kept, some of them.
select id from audit_log
where id < $3 or ((xid, id) <= ($1::xid8, $2) and ($4::bigint is null or id < $4))
order by id limit $5
