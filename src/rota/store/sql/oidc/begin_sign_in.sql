-- Each also deletes two that are too old, so that they do not pile up faster than housekeeping deletes them.
with old as (
    delete from oidc_sign_ins where state_hash in (
        select state_hash from oidc_sign_ins where began_at < now() - $7::interval order by began_at limit 2
        for update skip locked
    )
)
insert into oidc_sign_ins (state_hash, browser_hash, nonce, verifier, redirect_uri, next) values ($1, $2, $3, $4, $5, $6)
