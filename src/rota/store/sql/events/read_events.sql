-- Rows of the log after a cursor, oldest first, below the oldest open transaction: no row can appear there any more. Rows
-- above it are left for the next read.
select events.xid::text::bigint as xid, events.id, events.at, events.kind, events.tasks, events.numbers, events.details
from events
where events.tenant = $1 and (events.xid, events.id) >= ($2::bigint::text::xid8, $3::bigint)
    and events.xid < pg_snapshot_xmin(pg_current_snapshot())
    and events.at >= $5 and ($6::smallint[] is null or events.kind = any($6))
order by events.xid, events.id
limit $4
