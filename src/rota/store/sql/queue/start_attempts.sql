-- Authorises a batch of attempts: fence, compare-and-set and the specs to send, in one statement. Only rows that come back
-- may be sent.
-- The lateral lookup and the update by ctid force one plan, from the given ids to their rows. Otherwise the planner scans
-- the whole queue as soon as statistics call it empty. For the same reason `id + 0`, which no index serves, stands where the
-- id is only checked. The ids are sorted: the range from first to last prunes partitions (`id = any($4)` would too, but is
-- evaluated again for every row).
-- Pauses and drains hold for every start after their answer, however late the leader learns of them. Those committed before
-- this statement began are seen by its snapshot. The others have changed the version of the pool's rules, $9, which the leader
-- read before; and a change that comes later waits for the lock on the pool's row until this statement is committed.
with fence as materialized (
    select 1 from leases join pools on pools.id = leases.pool
    where leases.pool = $1 and leases.epoch = $2 and leases.holder = $3 and pools.rules = $9 and not pools.paused
    for key share of leases
    for share of pools
),
chosen as materialized (
    select found.location, found.urgent, found.urgent and not found.promotion_told as promoted, asked.*
    from unnest($4::bigint[], $5::integer[], $6::integer[], $7::bigint[], $8::integer[])
        as asked (id, version, node, boot, grace_ms)
    cross join lateral (
        select queue.ctid as location, queue.promotion_told,
            queue.state = {READY} and coalesce(queue.wake_at <= now(), false) as urgent
        from queue
        where queue.id = asked.id and queue.version = asked.version and queue.pool + 0 = $1
            and (queue.state = {READY} or (queue.state = {DELAYED} and queue.wake_at <= now()))
            and not (queue.expires and queue.start_by < now() and queue.attempt = 0)
            and queue.tenant <> all (array(select tenants.id from tenants where tenants.paused))
        offset 0
    ) found
    where exists (select from fence)
        and asked.node <> all (array(select nodes.id from nodes where nodes.pool = $1 and nodes.state = 'draining'))
),
started as (
    update queue
    set state = {RUNNING}, attempt = queue.attempt + 1, version = queue.version + 1, node = chosen.node, boot = chosen.boot,
        epoch = $2, grace_ms = chosen.grace_ms, started_at = now(), wake_at = null,
        ran_lane = case when chosen.urgent then {Lane.URGENT} else queue.lane end,
        promotion_told = queue.promotion_told or chosen.urgent, expires = false
    from chosen
    where queue.ctid = chosen.location and queue.id + 0 = chosen.id and queue.version = chosen.version
    returning queue.id, queue.attempt, queue.tenant, queue.attempt = 1 and queue.start_by < now() and not queue.late_told as late,
        chosen.promoted
),
event as (
    insert into events (tenant, kind, tasks, numbers)
    select tenant, kind, array_agg(id), array_agg(attempt)
    from (
        select tenant, case when late then {Event.STARTED_LATE} else {Event.STARTED} end as kind, id, attempt from started
        union all
        select tenant, {Event.PROMOTED}, id, attempt from started where promoted
    ) told
    group by tenant, kind
    order by kind desc -- a promotion comes before its start
)
select started.id, started.attempt, spec.kind, spec.name, spec.spec, spec.idempotency_key, spec.after_tasks
from started
cross join lateral (
    select tasks.kind, tasks.name, tasks.spec, tasks.idempotency_key, tasks.after_tasks from tasks
    where tasks.id = started.id
        and tasks.id between ($4::bigint[])[1] and ($4::bigint[])[cardinality($4::bigint[])]
    offset 0
) spec
