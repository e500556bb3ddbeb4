-- When the provider last asked who somebody is; a session of one that it did not ask for long proves less.
update sessions set proved_at = least(proved_at, $2::timestamptz) where id = $1
