-- The running operation that has waited longest for its next batch. Its lock is held until the batch is committed, so no other
-- node works on it meanwhile, and all nodes may look at once.
select {columns} from operations
where operations.state = {OperationState.RUNNING}
order by operations.worked_at, operations.id
limit 1
for update skip locked
