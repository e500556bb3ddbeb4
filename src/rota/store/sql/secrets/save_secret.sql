insert into secrets (tenant, name, key_id, wrapped_key, ciphertext, created_by, changed_by)
values ($1, $2, $3, $4, $5, $6, $6)
on conflict (tenant, name) do update set version = secrets.version + 1, key_id = $3, wrapped_key = $4,
    ciphertext = $5, changed_by = $6, changed_at = now()
returning {columns}
