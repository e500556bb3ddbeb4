-- Resent chunks are the same bytes under the same number: keep the first.
insert into log_chunks (task, attempt, seq, stream, data)
select * from unnest($1::bigint[], $2::smallint[], $3::integer[], $4::smallint[], $5::bytea[])
on conflict do nothing
