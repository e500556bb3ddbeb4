select {columns} from audit_seals where number = $1
