select exists (select from attempts where task >= $1 and task < $2 and state > 0),
exists (select from attempts where task >= $1 and task < $2
    and ended_at >= now() - make_interval(days => $3))
