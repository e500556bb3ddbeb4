select {columns} from operations
where operations.tenant = $1 and operations.id < $2 and ($4::smallint is null or operations.state = $4)
order by operations.id desc limit $3
