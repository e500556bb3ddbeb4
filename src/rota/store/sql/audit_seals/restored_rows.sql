-- Rows that were written before the database was restored, and not sealed by then: their transactions are still to come here.
select {audit/row_columns} from audit_log
where id > $1 and (xid, id) > ($2::xid8, $3) and xid >= pg_snapshot_xmax(pg_current_snapshot())
order by audit_log.xid, audit_log.id limit $4
