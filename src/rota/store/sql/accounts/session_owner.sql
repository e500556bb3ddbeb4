select principal from sessions where id = $1 and ended_at is null and ends_at > now()
