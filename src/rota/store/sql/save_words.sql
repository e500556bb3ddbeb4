-- What agents said last of whether their nodes take work. A node that has started anew since speaks for itself.
update nodes
set closed = said.closed
from unnest($1::integer[], $2::bigint[], $3::text[]) as said (id, boot, closed)
where nodes.id = said.id and nodes.boot = said.boot
