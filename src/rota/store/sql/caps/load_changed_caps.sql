select id, attempt, cap_ms from queue where pool = $1 and cap_changed and state = {RUNNING}
