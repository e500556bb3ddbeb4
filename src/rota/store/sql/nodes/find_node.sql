select id from nodes where pool = $1 and name = $2
