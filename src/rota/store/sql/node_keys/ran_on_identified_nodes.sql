-- Those of the attempts that run or ran on nodes for which no worker's token speaks.
select given.task, given.attempt
from unnest($1::bigint[], $2::smallint[]) as given (task, attempt)
cross join lateral (
    select queue.node from queue where queue.id = given.task and queue.attempt = given.attempt
    union all
    select attempts.node from attempts where attempts.task = given.task and attempts.number = given.attempt
) ran
join nodes on nodes.id = ran.node
join pools on pools.id = nodes.pool
left join node_keys on node_keys.pool = nodes.pool and node_keys.name = nodes.name
where pools.identified_nodes or node_keys.id is not null
