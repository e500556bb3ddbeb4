-- The next rows in the order of (xid, id), below the oldest transaction under way: none can appear among them any more.
select {audit/row_columns} from audit_log
where (xid, id) > ($1::xid8, $2) and id >= $3 and xid < pg_snapshot_xmin(pg_current_snapshot())
order by audit_log.xid, audit_log.id limit $4
