-- Schedules whose cursor has come, most overdue first, kept from editors until the ticker commits. One that an editor holds
-- right now is met again at the next look. Going on past ($2, $3), the last of the batch before, leaves out the dead index
-- entries of what was just moved on: at one busy instant they would be walked again by every batch.
select * from schedules
where next_at <= now() and not paused and (next_at, id) > ($2, $3)
order by next_at, id
limit $1
for no key update skip locked
