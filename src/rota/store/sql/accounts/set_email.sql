update principals set email = $2 where id = $1
