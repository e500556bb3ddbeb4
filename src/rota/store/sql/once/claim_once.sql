-- Returns the key if the caller may do the effect: the key is new, has the same claim, or its claim holds no longer. The
-- claim of a task holds while its attempt runs, any other until its lease ends. Concurrent callers wait for each other on the
-- unique key, and the second one sees the first one's row.
insert into once (tenant, key, claim, task, attempt, claimed_until)
values ($1, $2, $3, $4, $5, case when $4::bigint is null then now() + $6::bigint * interval '1 millisecond' end)
on conflict (tenant, key) do update
set claim = excluded.claim, task = excluded.task, attempt = excluded.attempt, claimed_until = excluded.claimed_until
where once.done_at is null and (
    once.claim = excluded.claim
    or (once.task is null and coalesce(once.claimed_until < clock_timestamp(), true))
    or (once.task is not null and not exists (
        select from queue where queue.id = once.task and queue.attempt = once.attempt and queue.state = {RUNNING}
    ))
)
returning key
