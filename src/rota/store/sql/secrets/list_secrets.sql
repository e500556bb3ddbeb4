select {columns} from secrets where tenant = $1 order by name
