-- What agents said last of whether their nodes take work. A node that has started anew since speaks for itself.
update nodes
set closed = said.closed,
    left_at = case when said.has_left then now() end,
    seen_at = case when said.has_left then now() else nodes.seen_at end
from unnest($1::integer[], $2::bigint[], $3::text[], $4::boolean[]) as said (id, boot, closed, has_left)
where nodes.id = said.id and nodes.boot = said.boot
