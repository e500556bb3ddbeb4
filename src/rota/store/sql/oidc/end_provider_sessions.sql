update sessions set ended_at = now() where principal = $1 and via = 'oidc' and ended_at is null and ends_at > now() returning id
