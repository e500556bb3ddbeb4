update worker_keys set used = used + 1, used_at = now(), used_from = $2::text::inet where id = $1
