select result, done_at is not null as done, claim is not distinct from $3 as ours,
    extract(epoch from claimed_until - now())::float8 as left_seconds
from once where tenant = $1 and key = $2
