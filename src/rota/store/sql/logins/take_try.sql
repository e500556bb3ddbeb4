-- GCRA: one try per $2, and up to $3 ahead of time. No row: it is one too many.
insert into code_tries (who, arrival) values ($1, clock_timestamp() + $2::interval)
on conflict (who) do update set arrival = greatest(code_tries.arrival, clock_timestamp()) + $2::interval
where greatest(code_tries.arrival, clock_timestamp()) + $2::interval <= clock_timestamp() + $3::interval
returning who
