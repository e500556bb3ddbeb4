select count(*) from (
select 1 from pools join queue on queue.pool = pools.id and queue.tenant = $1 limit $2) counted
