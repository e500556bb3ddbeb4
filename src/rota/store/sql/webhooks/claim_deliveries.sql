-- Claims due deliveries, a few of each webhook, so that a slow receiver can't hold up others. The claim moves `next_at`, so it
-- lapses by itself if the claimant dies.
with due as materialized (
    select deliveries.id, row_number() over (partition by deliveries.webhook order by deliveries.id) as position
    from (
        select id, webhook from deliveries where state = {DeliveryState.WAITING} and next_at <= now() order by next_at limit 2000
    ) deliveries
),
locked as (
    select deliveries.id from deliveries
    where deliveries.id in (select due.id from due where due.position <= $2 order by due.position, due.id limit $1)
        and deliveries.state = {DeliveryState.WAITING} and deliveries.next_at <= now()
    for update skip locked
)
update deliveries
set tries = deliveries.tries + 1, tried_at = now(), next_at = now() + make_interval(secs => $3)
from locked, webhooks
where deliveries.id = locked.id and webhooks.id = deliveries.webhook
returning deliveries.id, deliveries.webhook, webhooks.url, webhooks.salt, deliveries.message, deliveries.body,
    deliveries.tries
