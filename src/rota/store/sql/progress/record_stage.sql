-- A finished stage of a running attempt: progress and event in one statement. Stages finish in order, so a repeated report
-- is recognised by its number and changes nothing.
with report as (
    insert into progress (task, attempt, tenant, fraction, message, stage)
    values ($1, $2, $3, $4, $5, $6)
    on conflict (task) do update
        set attempt = excluded.attempt, fraction = excluded.fraction, message = excluded.message,
            stage = excluded.stage, at = now()
        where (progress.attempt, progress.stage) < (excluded.attempt, excluded.stage)
    returning task, attempt, tenant
)
insert into events (tenant, kind, tasks, numbers, details)
select report.tenant, {Event.STAGE_DONE}, array[report.task], array[report.attempt], $7::json from report
