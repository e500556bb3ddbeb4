select {columns} from audit_seals order by number desc limit 1
