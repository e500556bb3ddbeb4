-- How many rows come after the last seal of a count of transactions, up to $6, since when, and some of their ids.
select count(*) as number, min(at) as since, (array_agg(id order by id))[1:$5] as ids
from (
    select id, at from audit_log where (xid, id) > ($1::xid8, $2) and id >= $3 and ($4::bigint is null or id < $4)
    limit $6
) rest
