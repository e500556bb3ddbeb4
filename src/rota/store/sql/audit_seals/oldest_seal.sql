select {columns} from audit_seals order by number limit 1
