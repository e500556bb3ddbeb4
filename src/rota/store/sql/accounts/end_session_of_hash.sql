-- The session of a cookie.
update sessions set ended_at = now() where hash = $1 and ended_at is null returning id
