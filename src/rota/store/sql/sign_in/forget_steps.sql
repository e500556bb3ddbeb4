delete from sign_in_steps where hash in (select hash from sign_in_steps where ends_at < now() limit $1)
