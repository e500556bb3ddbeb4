-- A success: the rates $1 get back what was taken, $2 seconds each.
update sign_in_attempts as kept set free_at = kept.free_at - make_interval(secs => given.seconds)
from unnest($1::text[], $2::float8[]) as given (key, seconds) where kept.key = given.key
