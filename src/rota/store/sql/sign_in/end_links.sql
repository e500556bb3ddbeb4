-- Of a user; those of the first administrator for null.
update sign_in_links set used_at = now() where principal is not distinct from $1::integer and used_at is null
