with late as (
    select id from queue
    where wake_at is not null and not late_told and start_by < now() and state in ({DELAYED}, {READY}) and attempt = 0
        and not expires
    order by start_by limit $1 for update skip locked),
marked as (
    update queue set late_told = true from late where queue.id = late.id
    returning queue.id, queue.tenant),
event as (
    insert into events (tenant, kind, tasks) select tenant, {Event.LATE}, array_agg(id) from marked group by tenant)
select count(*) from marked
