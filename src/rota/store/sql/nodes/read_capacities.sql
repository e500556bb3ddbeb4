-- A drained node may be back at any moment: a task that fits it waits instead of being refused.
select pool, capacity, labels from nodes where state in ('up', 'draining')
