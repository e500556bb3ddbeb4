select id, name, elastic from pools order by id
