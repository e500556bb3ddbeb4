-- The next chunks for a segment: at most $4 bytes and $5 chunks.
select sized.seq, sized.stream, sized.at, sized.data
from (
    select chunk.*, sum(octet_length(chunk.data)) over (order by chunk.seq) - octet_length(chunk.data) as before_bytes
    from (
        select log_chunks.seq, log_chunks.stream, log_chunks.at, log_chunks.data from log_chunks
        where log_chunks.task = $1 and log_chunks.attempt = $2 and log_chunks.seq > $3
        order by log_chunks.seq
        limit $5
    ) chunk
) sized
where sized.before_bytes < $4
order by sized.seq
