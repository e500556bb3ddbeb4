-- A stage that a running attempt has finished: how far it is, and an event in the same moment. Stages of an attempt are
-- finished in order, so one that is said again, because the answer was lost, is known by its number and not told twice.
with said as (
    insert into progress (task, attempt, tenant, fraction, message, stage)
    values ($1, $2, $3, $4, $5, $6)
    on conflict (task) do update
        set attempt = excluded.attempt, fraction = excluded.fraction, message = excluded.message,
            stage = excluded.stage, at = now()
        where (progress.attempt, progress.stage) < (excluded.attempt, excluded.stage)
    returning task, attempt, tenant
)
insert into events (tenant, kind, tasks, numbers, details)
select said.tenant, {Event.STAGE_DONE}, array[said.task], array[said.attempt], $7::json from said
