-- Those of the attempts that run or ran on the node beside each.
select given.task, given.attempt
from unnest($1::bigint[], $2::smallint[], $3::integer[]) as given (task, attempt, node)
where given.node in (
    select queue.node from queue where queue.id = given.task and queue.attempt = given.attempt
    union all
    select attempts.node from attempts where attempts.task = given.task and attempts.number = given.attempt
)
