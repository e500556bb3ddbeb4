-- An operation; none if the idempotency key was used before.
insert into operations (tenant, user_name, verb, asked, selection, changes, edit, expected, or_more, key_hash, body_hash)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
on conflict (tenant, key_hash) where key_hash is not null do nothing
returning {columns}
