select id, coalesce(drain_by <= now(), false) as overdue
from nodes where pool = $1 and state = 'draining'
