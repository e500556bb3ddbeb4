select tenant, name, key_id, wrapped_key, ciphertext from secrets
where key_id <> $1 and (tenant, name) > ($2, $3) order by tenant, name limit $4
