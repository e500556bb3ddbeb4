-- Waits for a batch under way.
update operations set state = {OperationState.STOPPED}, ended_at = now() where id = $1 and tenant = $2 and state = {OperationState.RUNNING} returning id
