update lanes set level = $2, gated = $3, promotes = $4 where name = $1
