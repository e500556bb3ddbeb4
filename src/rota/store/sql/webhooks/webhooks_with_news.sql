select webhooks.id from webhooks
where webhooks.stopped_reason is null and exists (
    select from events where events.tenant = webhooks.tenant
        and (events.xid, events.id) > (webhooks.xid::text::xid8, webhooks."row")
        and events.xid < pg_snapshot_xmin(pg_current_snapshot()))
order by webhooks.id
