select {columns} from webhooks where tenant = $1 order by id
