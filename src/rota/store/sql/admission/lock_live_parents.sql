-- A parent that is locked here can't end before we commit.
select id, tenant from queue
where id = any($1)
order by id
for key share
