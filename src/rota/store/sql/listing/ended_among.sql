select wanted.id from unnest($3::bigint[]) with ordinality wanted (id, position)
cross join lateral (
    select from attempts
    where attempts.tenant = $1 and attempts.state = any($2::smallint[]) and attempts.state > 0
        and attempts.task = wanted.id
    limit 1
) ended
order by wanted.position limit $4
