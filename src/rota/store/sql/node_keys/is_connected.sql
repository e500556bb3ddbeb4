-- Whether a worker is connected under the name, as far as its last heartbeat tells.
select coalesce(nodes.seen_at > now() - make_interval(secs => $3) and (nodes.left_at is null or nodes.left_at < nodes.seen_at), false)
from nodes join pools on pools.id = nodes.pool where pools.name = $1 and nodes.name = $2 and nodes.state <> 'removed'
