-- When a ready task becomes urgent: a tenth of its tolerance, but at least five seconds, before its start-by time.
-- `urgent_before_ms` in model/queue.py is the same rule. Stable, as the subtraction is, so that the planner can inline it.
create function urgent_at(start_by timestamptz, tolerance_ms bigint) returns timestamptz language sql stable as $$
    select start_by - greatest(5000, tolerance_ms / 10) * interval '1 millisecond'
$$;
