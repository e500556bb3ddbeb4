select count(*) from (select from queue where id >= $1 and id < $2 limit $3) live
