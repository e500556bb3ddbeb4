attempt_objects.id, attempt_objects.attempt, attempt_objects.purpose, attempt_objects.name, attempt_objects.sha256,
    attempt_objects.size_bytes, attempt_objects.object_key, attempt_objects.created_at
