select ended.task as id
    from unnest($5::smallint[]) wanted (state)
    cross join lateral (
        select attempts.task from attempts
        where attempts.tenant = $1 and attempts.state = wanted.state and attempts.state > 0 and attempts.task < $2
        order by attempts.task desc limit $3
    ) ended
    order by ended.task desc limit $3
