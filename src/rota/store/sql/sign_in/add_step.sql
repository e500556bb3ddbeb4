insert into sign_in_steps (hash, principal, account, enrol, ends_at) values ($1, $2, $3, $4, now() + $5::interval)
