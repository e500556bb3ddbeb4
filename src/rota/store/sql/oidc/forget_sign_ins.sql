delete from oidc_sign_ins where state_hash in (
    select state_hash from oidc_sign_ins where began_at < now() - $1::interval order by began_at limit $2
)
