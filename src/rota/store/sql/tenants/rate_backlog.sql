select greatest(0, extract(epoch from arrival - clock_timestamp()))::float8
from rate_limits where tenant = $1
