-- Edits waiting tasks that the caller has locked and checked. The timer of a ready task is the time at which it becomes
-- urgent; the timer of a delayed task is its start time and stays, unless it is moved ($10). A blocked task obeys that time when
-- it is released.
with edit as materialized (
    select * from unnest($1::bigint[], $7::boolean[], $8::timestamptz[], $9::bigint[])
        as edit (id, given, start_by, tolerance_ms)
)
update queue
set version = queue.version + 1,
    pool = coalesce($2::smallint, queue.pool),
    lane = coalesce($3::smallint, queue.lane),
    urgency = coalesce(-$4::integer, queue.urgency),
    cap_ms = coalesce($5::bigint, queue.cap_ms),
    cap_changed = queue.cap_changed or $5::bigint is not null,
    tolerance_ms = coalesce($6::bigint, queue.tolerance_ms),
    tolerance_given = edit.given,
    leeway_ms = case when $6::bigint is null then queue.leeway_ms else 0 end,
    start_by = edit.start_by,
    state = case when $10::timestamptz is null or queue.state not in ({DELAYED}, {READY}) then queue.state
        when $10::timestamptz > now() then {DELAYED} else {READY} end,
    paused_state = case when $10::timestamptz is null or queue.paused_state not in ({DELAYED}, {READY}) then queue.paused_state
        when $10::timestamptz > now() then {DELAYED} else {READY} end,
    not_before = coalesce($10::timestamptz, queue.not_before),
    late_told = queue.late_told and $10::timestamptz is null,
    promotion_told = queue.promotion_told and $10::timestamptz is null,
    wake_at = case
        when $10::timestamptz is not null then case
            when queue.state = {BLOCKED} or queue.paused_state = {BLOCKED} then null
            when $10::timestamptz > now() then $10::timestamptz
            when queue.state <> {PAUSED} and edit.given then urgent_at(edit.start_by, edit.tolerance_ms)
        end
        when queue.state = {DELAYED} or queue.paused_state = {DELAYED} then queue.wake_at
        when queue.state = {READY} and edit.given then urgent_at(edit.start_by, edit.tolerance_ms)
    end,
    -- A node of the old pool need not be avoided in the new one.
    avoid_node = case when coalesce($2::smallint, queue.pool) = queue.pool then queue.avoid_node end
from edit
where queue.id = edit.id
returning {queue/ready_columns}, queue.pool, queue.wake_at <= now() as due, extract(epoch from queue.wake_at - now())::float8 as wakes_in
