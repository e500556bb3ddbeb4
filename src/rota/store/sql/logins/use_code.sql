update cli_logins set used_at = now(), token = $2 where id = $1
