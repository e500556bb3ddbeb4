-- How tasks ended, those of $3 first: a reader may stop early. The order decides which results fit into one answer.
select attempts.task, attempts.state, attempts.result, attempts.failure, attempts.exit_code, attempts.reason,
    attempts.outcome
from attempts
where attempts.task = any($1) and attempts.tenant = $2 and attempts.state > 0
order by attempts.task <> all($3), attempts.task
