-- The next chunks for a segment: at most $5 bytes and $6 chunks, numbered between $3 and $4.
select sized.seq, sized.stream, sized.at, sized.data, sized.byte_offset
from (
    select chunk.*, sum(octet_length(chunk.data)) over (order by chunk.seq) - octet_length(chunk.data) as before_bytes
    from (
        select log_chunks.seq, log_chunks.stream, log_chunks.at, log_chunks.data, log_chunks.byte_offset from log_chunks
        where log_chunks.task = $1 and log_chunks.attempt = $2 and log_chunks.seq > $3 and log_chunks.seq < $4
        order by log_chunks.seq
        limit $6
    ) chunk
) sized
where sized.before_bytes < $5
order by sized.seq
