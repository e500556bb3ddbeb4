-- Schedules whose cursor has come, most overdue first, kept from editors until the ticker commits. One that an editor holds
-- right now is met again at the next look.
select * from schedules
where next_at <= now() and not paused
order by next_at
limit $1
for no key update skip locked
