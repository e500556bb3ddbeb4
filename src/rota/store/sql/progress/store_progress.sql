-- The latest report of each running attempt for which the sender speaks; $5: its identity. The ids are sorted, so that two nodes lock rows in the same order.
insert into progress (task, attempt, tenant, fraction, message)
select report.task, report.attempt, live.tenant, report.fraction, report.message
from unnest($1::bigint[], $2::smallint[], $3::real[], $4::text[]) with ordinality
    as report (task, attempt, fraction, message, position)
cross join lateral (
    select queue.tenant from queue cross join (select $5::integer as identity) sender
    where queue.id = report.task and queue.attempt = report.attempt and queue.state = {RUNNING}
        and {node_keys/speaks_for}
    offset 0
) live
order by report.position
on conflict (task) do update
set attempt = excluded.attempt, fraction = excluded.fraction, message = excluded.message, at = now(),
    stage = case when progress.attempt = excluded.attempt then progress.stage else 0 end
where progress.attempt <= excluded.attempt
