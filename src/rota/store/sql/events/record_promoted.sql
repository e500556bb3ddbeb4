with urgent as (
    select id from queue
    where id = any($1) and not promotion_told and state = {READY} and wake_at <= now()
    order by id for update skip locked),
marked as (
    update queue set promotion_told = true from urgent where queue.id = urgent.id
    returning queue.id, queue.tenant)
insert into events (tenant, kind, tasks) select tenant, {Event.PROMOTED}, array_agg(id) from marked group by tenant
