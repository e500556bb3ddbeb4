update oidc_identities set key_id = $2, wrapped_key = $3, sealed_token = $4, refresh_at = now() + $5::interval where id = $1
