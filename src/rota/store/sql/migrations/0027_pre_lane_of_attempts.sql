-- The lane that an attempt ran in: the task's own, or urgent if its timer had run out. In the queue it is not part of an
-- index, so a start stays a HOT update. Null in rows of before.
alter table queue add column ran_lane smallint;
alter table attempts add column lane smallint;
