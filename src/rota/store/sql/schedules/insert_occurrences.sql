-- Only instants that come back become runs. A backfill may run a skipped instant, once.
insert into occurrences (schedule, instant, tenant, trigger_kind, tasks, graph)
select schedule, instant, tenant, trigger_kind, string_to_array(tasks, ',')::bigint[], graph
from unnest($1::bigint[], $2::timestamptz[], $3::integer[], $4::smallint[], $5::text[], $6::bigint[])
    as new (schedule, instant, tenant, trigger_kind, tasks, graph)
order by schedule, instant
on conflict (schedule, instant) do update
set tasks = excluded.tasks, graph = excluded.graph, trigger_kind = excluded.trigger_kind, at = now(),
    reason = case when occurrences.until is not null then occurrences.reason end
where occurrences.tasks is null and excluded.trigger_kind = {Trigger.BACKFILL}
returning schedule, instant
