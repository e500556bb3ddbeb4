insert into sign_in_links (hash, principal, created_by, ends_at) values ($1, $2, $3, now() + $4::interval) returning ends_at
