-- How the ended ones of these tasks ended.
select attempts.task, attempts.state, attempts.result, attempts.failure, attempts.exit_code, attempts.reason,
    attempts.outcome
from attempts
where attempts.task = any($1) and attempts.tenant = $2 and attempts.state > 0
