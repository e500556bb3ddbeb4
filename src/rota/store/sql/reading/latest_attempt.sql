select tasks.id, queue.attempt as live,
    (select max(number) from attempts where attempts.task = $1) as ended
from tasks left join queue on queue.id = tasks.id where tasks.id = $1 and tasks.tenant = $2
