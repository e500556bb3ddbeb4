insert into oidc_identities (issuer, subject, principal) values ($1, $2, $3) returning id
