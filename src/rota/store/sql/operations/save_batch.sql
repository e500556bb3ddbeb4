-- In the transaction of the batch. $2 null: it was the last one.
update operations
set before_id = coalesce($2, before_id), matched = matched + $3, changed = changed + $4, ended = ended + $5,
    refused = refused + $6, refusals = $7, worked_at = clock_timestamp(),
    state = case when $2::bigint is null then {OperationState.DONE} else {OperationState.RUNNING} end, ended_at = case when $2::bigint is null then clock_timestamp() end
where id = $1
