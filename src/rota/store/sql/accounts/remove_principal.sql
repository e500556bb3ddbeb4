delete from principals where id = $1 returning id
