update cli_logins set polled_at = now(), poll_seconds = $2 where id = $1
