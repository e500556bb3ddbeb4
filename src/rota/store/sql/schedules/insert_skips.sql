-- Records instants that become no run, each with an event. An instant that is on record stays as it is.
with kept as (
    insert into occurrences (schedule, instant, tenant, trigger_kind, reason, until)
    select * from unnest($1::bigint[], $2::timestamptz[], $3::integer[], $4::smallint[], $5::text[], $6::timestamptz[])
    on conflict do nothing
    returning schedule, instant, tenant, reason, until
)
insert into events (tenant, kind, tasks, details)
select kept.tenant, {Event.SCHEDULE_SKIPPED}, array[kept.schedule], json_build_object(
        'schedule', schedules.name, 'instant', kept.instant, 'reason', kept.reason, 'until', kept.until)
from kept join schedules on schedules.id = kept.schedule
