update nodes set seen_at = now(), state = case when state = 'lost' then 'up' else state end where id = any($1)
