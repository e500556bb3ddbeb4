-- Schedules whose cursor is due, most overdue first, locked until the ticker commits. A schedule that an editor has locked
-- is left for a later batch. Starting past ($2, $3), the end of the last batch, avoids the dead index entries of the rows just
-- moved: at a busy instant every batch would walk them again.
select * from schedules
where next_at <= now() and not paused and (next_at, id) > ($2, $3)
order by next_at, id
limit $1
for no key update skip locked
