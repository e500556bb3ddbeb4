-- Those of the attempts that run or ran on the node with this identity and boot.
select given.task, given.attempt
from unnest($1::bigint[], $2::smallint[]) as given (task, attempt)
where (
    select nodes.id from node_keys join nodes on nodes.pool = node_keys.pool and nodes.name = node_keys.name
    where node_keys.id = $3 and nodes.boot = $4
) in (
    select queue.node from queue where queue.id = given.task and queue.attempt = given.attempt
    union all
    select attempts.node from attempts where attempts.task = given.task and attempts.number = given.attempt
)
