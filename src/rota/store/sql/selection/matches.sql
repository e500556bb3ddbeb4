($9::text is null or task.name = $9) and ($10::jsonb is null or task.tags @> $10)
        and ($11::bigint is null or task.schedule = $11) and ($12::text is null or task.user_name = $12)
        and ($13::timestamptz is null or task.created_at >= $13) and task.created_at < $14
