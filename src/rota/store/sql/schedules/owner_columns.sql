user_name, rule_kind, rule_text, zone, anchor, request, missed, missed_limit, overlap, jitter_ms, at_most,
ends_at, max_runs, paused, next_at, moved_from, previous_at, artifacts
