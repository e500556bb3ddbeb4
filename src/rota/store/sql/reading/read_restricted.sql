-- What the restrictions of a token are about: name, pool and user of tasks.
select tasks.id, tasks.name, pools.name as pool, tasks.user_name
from tasks join pools on pools.id = tasks.pool where tasks.id = any($1::bigint[]) and tasks.tenant = $2
