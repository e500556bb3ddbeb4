-- All of a principal but $2, or the one with the id $3.
update sessions set ended_at = now()
where principal = $1 and ended_at is null and ($3::bigint is null or id = $3) and id is distinct from $2::bigint returning id
