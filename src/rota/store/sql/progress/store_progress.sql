-- The latest report of each running attempt. The ids are sorted, so that two nodes lock rows in the same order.
insert into progress (task, attempt, tenant, fraction, message)
select report.task, report.attempt, live.tenant, report.fraction, report.message
from unnest($1::bigint[], $2::smallint[], $3::real[], $4::text[]) with ordinality
    as report (task, attempt, fraction, message, position)
cross join lateral (
    select queue.tenant from queue where queue.id = report.task and queue.attempt = report.attempt and queue.state = {RUNNING} offset 0
) live
order by report.position
on conflict (task) do update
set attempt = excluded.attempt, fraction = excluded.fraction, message = excluded.message, at = now(),
    stage = case when progress.attempt = excluded.attempt then progress.stage else 0 end
where progress.attempt <= excluded.attempt
