-- Once, and only by the browser that began it.
delete from oidc_sign_ins where state_hash = $1 and browser_hash = $2 and began_at > now() - $3::interval
returning nonce, verifier, redirect_uri, next
