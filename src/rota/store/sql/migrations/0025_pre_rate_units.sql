-- The row of a tenant's rate says how long one task counts in it, so that a change of plan can convert what was used.
-- Null: written by code that did not know; it counts as the present plan's.

alter table rate_limits add column per_task interval;
