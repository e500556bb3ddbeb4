select id from nodes where name = $1 order by id
