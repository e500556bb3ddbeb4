-- The last reports of agents whether their nodes take work. A report of an earlier boot changes nothing.
update nodes
set closed = report.closed,
    left_at = case when report.has_left then now() end,
    seen_at = case when report.has_left then now() else nodes.seen_at end
from unnest($1::integer[], $2::bigint[], $3::text[], $4::boolean[]) as report (id, boot, closed, has_left)
where nodes.id = report.id and nodes.boot = report.boot
