-- The tenant's artifacts by the beginnings of their digests: none, the one, or two of several, for each beginning.
select asked.digits as asked_digits, found.*
from unnest($2::text[], $3::bytea[], $4::bytea[]) as asked (digits, low, high)
cross join lateral (
    select {columns}
    from artifacts where tenant = $1 and sha256 between asked.low and asked.high order by sha256 limit 2
) found
