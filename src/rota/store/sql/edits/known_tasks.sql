select id, shape, unplaceable_waits, coalesce(spec ->> 'isolation', 'none') as isolation
from tasks where id = any($1) and tenant = $2
