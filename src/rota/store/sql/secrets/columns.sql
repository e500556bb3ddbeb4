name, version, created_by, created_at, changed_by, changed_at
