select exists (select from oidc_identities where principal = $1)
