case when nodes.left_at >= nodes.seen_at then 'left'
        when nodes.seen_at < now() - interval '1 minute' then 'lost'
        when nodes.seen_at < now() - make_interval(secs => $1) then 'silent'
        when nodes.state = 'up' then coalesce(nodes.closed, 'up') else nodes.state end
