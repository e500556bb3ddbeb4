-- The output of an attempt before chunk $3 (null: the end), latest first: chunks that were not moved, else the segment.
with chunk as materialized (
    select log_chunks.seq, log_chunks.stream, log_chunks.data, log_chunks.byte_offset from log_chunks
    where log_chunks.task = $1 and log_chunks.attempt = $2 and ($3::integer is null or log_chunks.seq < $3)
        and ($4::smallint is null or log_chunks.stream = $4) and ($5::timestamptz is null or log_chunks.at >= $5)
        and log_chunks.seq > coalesce(
            (select max(last_seq) from log_segments where log_segments.task = $1 and log_segments.attempt = $2), -1)
    order by log_chunks.seq desc
    limit $6
)
select chunk.*, null::integer as first_seq, null::integer as last_seq, null::text as object_key,
    null::bigint as stored_bytes, null::bigint as size_bytes
from chunk
union all
(
    select null, null, null, null, log_segments.first_seq, log_segments.last_seq, log_segments.object_key,
        log_segments.stored_bytes, log_segments.size_bytes
    from log_segments
    where log_segments.task = $1 and log_segments.attempt = $2 and ($3::integer is null or log_segments.first_seq < $3)
        and ($5::timestamptz is null or log_segments.last_at >= $5) and not exists (select from chunk)
    order by log_segments.first_seq desc
    limit 1
)
