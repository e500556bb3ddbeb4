update oidc_identities set key_id = null, wrapped_key = null, sealed_token = null, refresh_at = null where id = $1
