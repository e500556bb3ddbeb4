-- Whether this database counts transactions anew: it was restored, behind the last one that is sealed ($1, $2), and rows that
-- are newer ($3: the largest id that is sealed) have earlier transactions. Only the next rows are looked at, however many wait.
select $1::xid8 >= pg_snapshot_xmax(pg_current_snapshot())
    or exists (
        select from (select xid, id from audit_log where id > $3 order by id limit 1000) following
        where (xid, id) < ($1::xid8, $2::bigint)
    )
