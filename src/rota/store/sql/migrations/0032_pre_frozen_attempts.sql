-- How long an attempt was frozen because its node had no leader; null: never, as in rows of before.
alter table attempts add column frozen_us bigint;
