select principal, key_id, wrapped_key, ciphertext from second_factors
where key_id <> $1 and principal > $2 order by principal limit $3
