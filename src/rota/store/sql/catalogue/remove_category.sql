delete from categories where name = $1 returning name
