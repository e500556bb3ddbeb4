update recovery_codes set used_at = now() where principal = $1 and hash = $2 and used_at is null returning principal
