select schedule, instant, tenant, trigger_kind, tasks, reason, until, at, graph from occurrences
where schedule = $1 and instant < $2 order by instant desc limit $3
