$3::bigint[] is null
