select extract(epoch from
{rate_ahead}
)::float8
from rate_limits where tenant = $1
