update webhooks set xid = $2, "row" = $3, position = $4 where id = $1
