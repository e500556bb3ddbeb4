select {columns} from operations where operations.id = $1 and operations.tenant = $2
