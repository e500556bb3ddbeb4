-- Records a result without an earlier claim. No row comes back if the effect is done, or another claim holds.
insert into once (tenant, key, result, done_at) values ($1, $2, $3, now())
on conflict (tenant, key) do update
set result = excluded.result, done_at = now(), claim = null, task = null, attempt = null, claimed_until = null
where once.done_at is null and (
    (once.task is null and coalesce(once.claimed_until < clock_timestamp(), true))
    or (once.task is not null and not exists (
        select from queue where queue.id = once.task and queue.attempt = once.attempt and queue.state = {RUNNING}
    ))
)
returning key
