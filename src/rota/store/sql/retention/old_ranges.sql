select substring(relname from '[0-9]+$')::bigint as number
from pg_inherits join pg_class on pg_class.oid = inhrelid
where inhparent = $1::text::regclass and relname ~ '_[0-9]+$'
    and (substring(relname from '[0-9]+$')::bigint + 2) * $2::bigint
        <= (select last_value from task_ids)
order by 1
