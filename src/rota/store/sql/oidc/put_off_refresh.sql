update oidc_identities set refresh_at = now() + $2::interval where id = $1 and refresh_at is not null
