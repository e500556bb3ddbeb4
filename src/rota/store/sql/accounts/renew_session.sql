-- A new secret for a session whose rights change: the one before opens nothing any more.
update sessions set hash = $2, tenant = $3 where id = $1 and ended_at is null returning id
