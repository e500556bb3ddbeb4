-- When each connected node was last heard: a node that hangs is silent from its last heartbeat on, not from the end of its
-- connection.
update nodes
set seen_at = greatest(nodes.seen_at, now() - make_interval(secs => heard.seconds_ago)),
    state = case when state = 'lost' then 'up' else state end
from unnest($1::integer[], $2::double precision[]) as heard (id, seconds_ago)
where nodes.id = heard.id
