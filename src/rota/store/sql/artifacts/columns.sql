artifacts.id, artifacts.sha256, artifacts.size_bytes, artifacts.name, artifacts.object_key, artifacts.created_by,
    artifacts.created_at, artifacts.kept_until
