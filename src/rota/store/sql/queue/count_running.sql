-- Running tasks of a pool: all, or those of a tenant, or those on a node.
select count(*) from queue
where pool = $1 and state = {RUNNING} and ($2::integer is null or tenant = $2) and ($3::integer is null or node = $3)
