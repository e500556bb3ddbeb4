-- Deletes the places of ended attempts. Returns their keys, and the other pools that wait for a place.
with given as (
    delete from key_places where task = any($1) returning tenant, key
)
select given.tenant, given.key, array(
    select key_waits.pool from key_waits
    where key_waits.tenant = given.tenant and key_waits.key = given.key and key_waits.pool <> $2
    order by key_waits.pool
) as pools
from (select distinct given.tenant, given.key from given) given
order by given.tenant, given.key
