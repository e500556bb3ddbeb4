select {columns} from audit_seals where number > $1 order by number limit $2
