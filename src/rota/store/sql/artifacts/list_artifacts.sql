select {columns} from artifacts where tenant = $1 and id < $2 order by id desc limit $3
