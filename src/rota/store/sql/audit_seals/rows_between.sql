-- All rows of a range that a seal covers; $5 and $6: the ids of the rows that counted transactions as it did.
select {audit/row_columns} from audit_log
where (xid, id) > ($1::xid8, $2) and (xid, id) <= ($3::xid8, $4) and id >= $5 and ($6::bigint is null or id < $6)
