update operations set audit = $2 where id = $1
