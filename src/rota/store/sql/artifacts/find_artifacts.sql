select {columns} from artifacts where tenant = $1 and sha256 between $2 and $3 order by sha256 limit 2
