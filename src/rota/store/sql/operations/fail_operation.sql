update operations set state = {OperationState.FAILED}, ended_at = now(), trouble = $2 where id = $1 and state = {OperationState.RUNNING}
