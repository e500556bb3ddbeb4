select {audit/row_columns} from audit_log where id = any($1)
