select sessions.id, sessions.tenant, principals.name as actor, 'user' as kind
from sessions join principals on principals.id = sessions.principal where sessions.hash = $1
