update nodes set state = case when $2 then 'draining' when state = 'draining' then 'up' else state end,
    drain_by = case when $2 then now() + make_interval(secs => $3) end
where id = $1 and state <> 'removed'
