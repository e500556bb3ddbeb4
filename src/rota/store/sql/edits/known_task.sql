select shape, unplaceable_waits, coalesce(spec ->> 'isolation', 'none') as isolation
from tasks where id = $1 and tenant = $2
