update sessions set proved_at = now() where id = $1
