select rules from pools where id = $1
