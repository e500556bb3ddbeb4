select via from sessions where id = $1
