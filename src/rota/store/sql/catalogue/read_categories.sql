select name, tolerance_ms, lane, cap_ms, isolation from categories order by name
