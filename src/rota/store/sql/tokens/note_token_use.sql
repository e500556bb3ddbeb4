update tokens set used_at = now(), used_from = noted.address
from unnest($1::integer[], $2::inet[]) as noted (id, address)
where tokens.id = noted.id and (tokens.used_at is null or tokens.used_at < now() - $3::interval)
