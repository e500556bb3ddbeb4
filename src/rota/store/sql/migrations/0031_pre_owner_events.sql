-- Submissions, promotions and what owners do (hold, release, pause, resume, edit, extend) are events too.
alter table events drop constraint events_kind_check;
alter table events add constraint events_kind_check check (kind between 1 and 14) not valid; -- no row breaks it: it is wider
-- Whether its promotion is an event already. No index mentions it, so that a start stays a HOT update.
alter table queue add column promotion_told boolean not null default false;
