-- The provider spoke for it just now.
update oidc_identities set confirmed_at = now() where id = $1
