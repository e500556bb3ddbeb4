-- The latest word of each running attempt. The ids come sorted, so that two nodes that store at once lock in one order.
insert into progress (task, attempt, tenant, fraction, message)
select said.task, said.attempt, live.tenant, said.fraction, said.message
from unnest($1::bigint[], $2::smallint[], $3::real[], $4::text[]) with ordinality
    as said (task, attempt, fraction, message, place)
cross join lateral (
    select queue.tenant from queue where queue.id = said.task and queue.attempt = said.attempt and queue.state = {RUNNING} offset 0
) live
order by said.place
on conflict (task) do update
set attempt = excluded.attempt, fraction = excluded.fraction, message = excluded.message, at = now(),
    stage = case when progress.attempt = excluded.attempt then progress.stage else 0 end
where progress.attempt <= excluded.attempt
