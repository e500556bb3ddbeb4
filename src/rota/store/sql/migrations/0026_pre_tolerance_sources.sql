-- Who gave a task its tolerance, and the plan's default. `tolerance_ms` and `start_by` order a task in the queue: the usual
-- run time may move it ahead of the end of its tolerance. It is late from `start_by` plus `leeway_ms` on; null: never, because
-- nobody gave it a tolerance (or a server node of the previous version admitted it).
alter table plans add column tolerance_ms bigint default 3600000 check (tolerance_ms >= 0);
alter table tasks add column tolerance_source smallint, add column leeway_ms bigint;
alter table queue add column leeway_ms bigint check (leeway_ms >= 0);
