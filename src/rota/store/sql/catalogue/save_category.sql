insert into categories (name, tolerance_ms, lane, cap_ms, isolation) values ($1, $2, $3, $4, $5)
on conflict (name) do update set tolerance_ms = excluded.tolerance_ms, lane = excluded.lane,
    cap_ms = excluded.cap_ms, isolation = excluded.isolation
