update queue set cap_ms = $2, cap_changed = true, version = version + 1 where id = $1
returning id, pool, tenant, state, attempt, cap_ms, lane, urgency, start_by
