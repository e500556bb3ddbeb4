-- The tenant's artifacts by prefixes of their digests: for each prefix none, one, or two if it is ambiguous.
select asked.digits as asked_digits, found.*
from unnest($2::text[], $3::bytea[], $4::bytea[]) as asked (digits, low, high)
cross join lateral (
    select {columns}
    from artifacts where tenant = $1 and sha256 between asked.low and asked.high order by sha256 limit 2
) found
