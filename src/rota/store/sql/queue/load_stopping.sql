-- Running attempts that their owners cancel or pause.
select id, attempt, true as cancels from queue where pool = $1 and cancel_requested and state = {RUNNING}
union all
select id, attempt, false from queue where pool = $1 and pause_requested and not cancel_requested and state = {RUNNING}
