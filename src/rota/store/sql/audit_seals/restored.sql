-- Whether this database counts transactions anew: it was restored, behind the last one that is sealed ($1, $2), and some rows
-- are newer ($3: the largest id that is sealed) with earlier transactions.
select $1::xid8 >= pg_snapshot_xmax(pg_current_snapshot())
    or exists (select from audit_log where id > $3 and (xid, id) < ($1::xid8, $2::bigint))
