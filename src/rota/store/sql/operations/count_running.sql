select count(*) from (
    select from operations where operations.tenant = $1 and operations.state = {OperationState.RUNNING} order by operations.id desc limit $2
) running
