-- A new secret, which counts as soon as a code of it was entered. The one that counts is not replaced.
insert into second_factors (principal, key_id, wrapped_key, ciphertext) values ($1, $2, $3, $4)
on conflict (principal) do update set key_id = excluded.key_id, wrapped_key = excluded.wrapped_key,
    ciphertext = excluded.ciphertext, made_at = now(), last_step = 0
where second_factors.confirmed_at is null
returning principal
