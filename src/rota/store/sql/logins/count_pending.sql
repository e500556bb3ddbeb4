-- Those that wait for their user: all, and those from the network $1 (null: from sockets of this machine).
select count(*) as everywhere, count(*) filter (where network is not distinct from $1) as here
from cli_logins where decided_at is null and expires_at > now()
