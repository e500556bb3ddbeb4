select id, principal from oidc_identities where issuer = $1 and subject = $2 for update
