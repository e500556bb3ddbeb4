-- A chunk that is sent again has the same bytes and number: the first one stays.
insert into log_chunks (task, attempt, seq, stream, data)
select * from unnest($1::bigint[], $2::smallint[], $3::integer[], $4::smallint[], $5::bytea[])
on conflict do nothing
