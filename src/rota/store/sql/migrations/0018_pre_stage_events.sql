-- A finished stage of a task is an event of its own, told once however often its node had to say so.
alter table events drop constraint events_kind_check;
alter table events add constraint events_kind_check check (kind between 1 and 6) not valid; -- no row breaks it: it is wider
alter table progress add column stage smallint not null default 0; -- the last one that its attempt has finished
