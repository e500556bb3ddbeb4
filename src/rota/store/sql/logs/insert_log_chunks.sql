-- A chunk that is sent again has the same bytes and number: the first one stays.
insert into log_chunks (task, attempt, seq, stream, data, byte_offset)
select given.task, given.attempt, given.seq, given.stream, given.data, nullif(given.byte_offset, -1)
from unnest($1::bigint[], $2::smallint[], $3::integer[], $4::smallint[], $5::bytea[], $6::bigint[])
    as given (task, attempt, seq, stream, data, byte_offset)
on conflict do nothing
