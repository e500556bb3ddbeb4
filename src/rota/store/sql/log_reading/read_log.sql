-- The output of an attempt after chunk $3: the segment that holds it, else chunks. As one statement it sees a chunk that is
-- being moved either in its row or in the segment. A chunk that was sent again after its move is left out.
with segment as materialized (
    select log_segments.first_seq, log_segments.last_seq, log_segments.object_key, log_segments.stored_bytes,
        log_segments.size_bytes
    from log_segments
    where log_segments.task = $1 and log_segments.attempt = $2 and log_segments.last_seq > $3
        and ($5::timestamptz is null or log_segments.last_at >= $5)
    order by log_segments.first_seq
    limit 1
)
select null::integer as seq, null::smallint as stream, null::bytea as data,
    null::bigint as byte_offset, segment.* from segment
union all
(
    select log_chunks.seq, log_chunks.stream, log_chunks.data, log_chunks.byte_offset, null, null, null, null, null
    from log_chunks
    where log_chunks.task = $1 and log_chunks.attempt = $2 and log_chunks.seq > $3
        and ($4::smallint is null or log_chunks.stream = $4) and ($5::timestamptz is null or log_chunks.at >= $5)
        and not exists (select from segment)
        and log_chunks.seq > coalesce(
            (select max(last_seq) from log_segments where log_segments.task = $1 and log_segments.attempt = $2), -1)
    order by log_chunks.seq
    limit $6
)
